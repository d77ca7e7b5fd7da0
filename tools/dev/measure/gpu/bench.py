"""Measures ddprun on the GPU beside its peers, table after table, each within its share of the time. The scripts of the
peers are started once and stand by: their start, and what torch.compile takes, pass beside the checks."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
import traceback

from measure import data, process, table
from measure.gpu import build
from measure.gpu.tables import TABLES
from measure.rounds import Budget, OutOfTime
from measure.standing import Standing
from measure.trainings import KEEPS_MEMORY, PEERS, Ddprun

READY_SECONDS = 150  # for the peers to start and to compile; most of it passes beside the checks
GRAPH_WARM_UP = 12  # steps in which torch.compile has compiled all, and recorded its graphs


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How much is trained in each table: as long as a GPU needs to show its speed, or just so much that the script is
    tried."""

    mnist_batch: int = 100
    mnist_steps: int = 6000
    mnist_warm_up: int = 600  # an epoch; the loss is read as often
    plain_mnist_steps: int = 600  # of the script that is many times slower; the speed is one of steady steps
    plain_mnist_warm_up: int = 100
    evaluations: int = 1  # of the test images by the peers
    cifar_images: int = 49_152  # 48 whole batches: no side has a ragged one
    cifar_batch: int = 1024
    cifar_steps: int = 144
    cifar_warm_up: int = 48
    network: tuple = (16, 4)  # depth and widen_factor of configs/model/wide_resnet.yaml
    large_network: tuple = (28, 10)
    large_batch: int = 512
    large_steps: int = 72
    large_warm_up: int = 24
    half: str = "fp16"
    precisions: tuple = ("tf32", "fp32", "fp32_exact")  # beside bf16
    matrix: int = 8192
    copied_bytes: int = 1 << 32
    speedrun: tuple = ()  # more overrides
    cifar10_records: int = 10_000


REHEARSAL = Sizes(
    mnist_batch=50,
    mnist_steps=16,
    mnist_warm_up=4,
    plain_mnist_steps=16,
    plain_mnist_warm_up=4,
    evaluations=0,
    cifar_images=256,
    cifar_batch=32,
    cifar_steps=6,
    cifar_warm_up=2,
    network=(10, 1),
    large_network=(10, 2),
    large_batch=32,
    large_steps=6,
    large_warm_up=2,
    half="bf16",  # fp16 needs a GPU, as tf32 does
    precisions=("fp32",),
    matrix=256,
    copied_bytes=1 << 24,
    speedrun=("dataset.limit_train=200", "trainer.global_batch=50", "trainer.max_epochs=1", "model.widths=[8,8,8]",
              "model.whitening_images=50", "model.tta=none", "trainer.eval_batch=200"),
    cifar10_records=200,
)  # fmt: skip


@dataclasses.dataclass
class Bench:
    """What the tables work with."""

    ddprun: Ddprun
    device: str
    python: str  # of the peers
    folder: pathlib.Path
    data: pathlib.Path  # holds MNIST/raw and cifar-100-binary
    sizes: Sizes
    wanted: int  # rounds
    loader_workers: int
    peer_environment: dict
    missing: dict = dataclasses.field(default_factory=dict)  # {"mnist": why}
    real_cifar100: bool = True  # else random images
    real_cifar10: bool = True
    versions: dict = dataclasses.field(default_factory=dict)
    peaks: dict = dataclasses.field(default_factory=dict)
    standing: dict = dataclasses.field(default_factory=dict)
    made: dict = dataclasses.field(default_factory=dict)  # {table: measure.table.Made} of those before
    most_seconds: float = 120  # of one run

    @property
    def has_torchvision(self):
        return bool(self.versions.get("torchvision"))

    def peer(self, name):
        if name not in self.standing:
            raise process.Failed(f"{name} could not be started")
        return self.standing[name]

    def start_peers(self):
        folder = self.folder / "peers"
        folder.mkdir()
        for name, (script, arguments, warm_ups) in scripts(self).items():
            if name.startswith("mnist") and "mnist" in self.missing:
                continue
            environment = KEEPS_MEMORY if name.endswith("expert") else {}
            self.standing[name] = Standing(
                name, [self.python, PEERS / script, *arguments], folder, environment, warm_ups
            )

    def wait_for_peers(self, seconds):
        """One that does not get ready is missing in its table, which says why."""
        deadline = time.monotonic() + seconds
        for one in self.standing.values():
            try:
                one.wait_until_ready(max(0.1, deadline - time.monotonic()))
            except process.Failed as error:
                print(f"  {error}", file=sys.stderr, flush=True)

    def stop_peers(self):
        for one in self.standing.values():
            one.stop()

    def find_peaks(self):
        """And versions. With the peers ready, so that nothing else is computed meanwhile."""
        words = [self.python, PEERS / "gpu_peaks.py", f"--device={self.device}", f"--size={self.sizes.matrix}",
                 f"--bytes={self.sizes.copied_bytes}"]  # fmt: skip
        environment = {**os.environ, **self.peer_environment}
        ran = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, timeout=90, env=environment, check=False
        )
        if ran.returncode != 0:
            raise process.Failed(f"{self.python} cannot measure the GPU: {ran.stderr[-600:]}")
        found = json.loads(ran.stdout.splitlines()[-1])
        self.versions, self.peaks = found["versions"], found["peaks"]


def scripts(bench):
    """{name: (script, words, what each training before it counts as ready is told)}"""
    sizes, workers = bench.sizes, bench.loader_workers
    shared = [f"--data={bench.data}", f"--device={bench.device}", "--epochs=100000"]
    mnist = [*shared, f"--evaluations={sizes.evaluations}", f"--num-workers={min(1, workers)}"]
    cifar = [*shared, f"--depth={sizes.network[0]}", f"--widen-factor={sizes.network[1]}"]
    steps = f"--max-steps={min(GRAPH_WARM_UP, sizes.cifar_steps)}"
    models = [[steps, f"--global-batch={sizes.mnist_batch}", f"--model={model}"] for model in ("convnet", "convnet_bn")]
    images = [steps, f"--global-batch={sizes.cifar_batch}"]
    return {
        "mnist_plain": ("mnist/plain.py", mnist, models),
        "mnist_expert": ("mnist/expert.py", mnist, [[*model, f"--precision={precision}"] for model in models for precision in ("fp32", "bf16")]),
        "cifar_plain": ("cifar/plain.py", [*cifar, f"--num-workers={workers}", f"--precision={sizes.half}"], [images]),
        "cifar_expert": ("cifar/expert.py", cifar, [images, [*images, "--no-compile"]]),
    }  # fmt: skip


def make(program, device, folder, options):
    """Prepares the data that is there; without CIFAR-100, random images of the same size, the same for all sides."""
    images = folder / "data"
    images.mkdir(parents=True)
    sizes = REHEARSAL if options.rehearse else Sizes()
    missing = {}
    try:
        data.lay_out_mnist(images)
    except SystemExit as error:
        missing["mnist"] = str(error)
    return Bench(
        ddprun=Ddprun(program.ddprun, folder, program.environment),
        device=device,
        python=python_of_peers(options),
        folder=folder,
        data=images,
        sizes=sizes,
        wanted=options.pairs,
        loader_workers=min(16, len(os.sched_getaffinity(0))) if device == "cuda" else 1,
        peer_environment={"PYTHONPATH": peer_path(options)},
        missing=missing,
        real_cifar100=data.lay_out_cifar100(images, sizes.cifar_images),
    )


def python_of_peers(options):
    """Returns the given Python or else that of the benchmarks' own environment, which is created if missing."""
    if options.python:
        return options.python
    subprocess.run([build.ROOT / "tools/dev/measure/setup"], check=True)
    return str(build.ROOT / ".venv-bench/bin/python")


def peer_path(options):
    """Returns where a folder of --pack may have Python packages."""
    return str(build.carried_folder(options) / "python") if options.packed else os.environ.get("PYTHONPATH", "")


def measure(bench, names, deadline):
    """Yields for each table its name, outcome, detail, seconds and measure.table.Made, or None if it could not be
    made."""
    chosen = [one for one in TABLES if one.name in names]
    budget = Budget(deadline, {one.name: one.weight for one in chosen if one.needs not in bench.missing})
    for one in chosen:
        began = time.monotonic()
        made, outcome, detail = measure_one(bench, one, budget)
        yield one.name, outcome, detail, time.monotonic() - began, made


def measure_one(bench, one, budget):
    """Returns the table, or None, with outcome and detail."""
    if one.needs in bench.missing:
        return None, "SKIP", bench.missing[one.needs]
    try:
        made = bench.made[one.name] = table.measure(one, bench, budget.share(one.name, one.least))
    except OutOfTime as reason:
        return None, "SKIP", str(reason)
    except Exception as error:  # whatever it is, it must not cost the other tables
        traceback.print_exc()
        return None, "FAIL", f"{type(error).__name__}: {str(error)[-600:]}"
    return made, "FAIL" if made.failed() else "PASS", made.in_words()

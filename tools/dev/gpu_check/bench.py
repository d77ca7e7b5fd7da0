"""Measures ddprun on the GPU beside its peers, table after table, each within its share of the time."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
import traceback

from gpu_check import budget, build, peers
from gpu_check.sizes import REHEARSAL, Sizes
from gpu_check.standing import BENCH
from gpu_check.tables.cifar10 import Cifar10
from gpu_check.tables.fast_paths import FastPaths
from gpu_check.tables.mnist import Mnist
from gpu_check.tables.roofline import Roofline
from gpu_check.tables.scaling import Scaling
from gpu_check.tables.wide_resnet import WideResNet
from gpu_check.trainings import Trainer
from suite import cifar_data, mnist_data, process

# In the order in which they are made: what is promised first.
TABLES = [WideResNet(), Mnist("convnet", {"plain": 6.0}), Roofline(), Cifar10(), FastPaths("convnet"), Mnist("convnet_bn", {}),
          FastPaths("wide_resnet"), Scaling()]  # fmt: skip
READY_SECONDS = 150  # for the peers to start and to compile; most of it passes beside the checks


@dataclasses.dataclass
class Bench:
    """What the tables work with."""

    trainer: Trainer
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
    versions: dict = dataclasses.field(default_factory=dict)
    peaks: dict = dataclasses.field(default_factory=dict)
    standing: dict = dataclasses.field(default_factory=dict)
    found: dict = dataclasses.field(default_factory=dict)  # what later tables need of earlier ones

    @property
    def has_torchvision(self):
        return bool(self.versions.get("torchvision"))

    def fp32_in_words(self):
        """Uses the default of the peers' torch, which their scripts do not change; trainer.precision=fp32 is the same."""
        convolutions = "in TF32" if self.versions.get("tf32_convolutions") else "exact"
        products = {"highest": "exact", "high": "in TF32"}.get(self.versions.get("float32_products"), "unknown")
        return f"convolutions {convolutions}, matrix products {products}"

    def peer(self, name):
        if name not in self.standing:
            raise process.Failed(f"{name} could not be started")
        return self.standing[name]

    def start_peers(self):
        folder = self.folder / "peers"
        folder.mkdir()
        self.standing = peers.start(self.python, self.device, folder, self.data, self.missing, self.sizes,
                                    self.loader_workers)  # fmt: skip

    def wait_for_peers(self, seconds):
        """Starts the peers. One that does not get ready is missing in its table, which says why."""
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
        words = [self.python, BENCH / "gpu_peaks.py", f"--device={self.device}", f"--size={self.sizes.matrix}",
                 f"--bytes={self.sizes.copied_bytes}"]  # fmt: skip
        environment = {**os.environ, **self.peer_environment}
        ran = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=90, env=environment, check=False)
        if ran.returncode != 0:
            raise process.Failed(f"{self.python} cannot measure the GPU: {ran.stderr[-600:]}")
        found = json.loads(ran.stdout.splitlines()[-1])
        self.versions, self.peaks = found["versions"], found["peaks"]


def make(program, device, folder, options):
    """Prepares the data that is there; without CIFAR-100, random images of the same size, the same for all sides."""
    data = folder / "data"
    data.mkdir(parents=True)
    sizes = REHEARSAL if options.rehearse else Sizes()
    missing = {}
    try:
        mnist_data.lay_out(data)
    except SystemExit as error:
        missing["mnist"] = str(error)
    cores = len(os.sched_getaffinity(0))
    return Bench(
        trainer=Trainer(program.ddprun, device, folder, threads=0 if device == "cuda" else 1, environment=program.environment),
        device=device,
        python=python_of_peers(options),
        folder=folder,
        data=data,
        sizes=sizes,
        wanted=options.pairs,
        loader_workers=min(16, cores) if device == "cuda" else 1,
        peer_environment={"PYTHONPATH": peer_path(options)},
        missing=missing,
        real_cifar100=cifar_data.lay_out_binary(data, images=sizes.cifar_images),
    )


def python_of_peers(options):
    """Returns the given Python or else that of the benchmarks' own environment, which is created if missing."""
    if options.python:
        return options.python
    subprocess.run([build.ROOT / "tools/dev/bench/setup"], check=True)
    return str(build.ROOT / ".venv-bench/bin/python")


def peer_path(options):
    """Returns where a folder of --pack may have Python packages."""
    return str(build.carried_folder(options) / "python") if options.packed else os.environ.get("PYTHONPATH", "")


def measure(bench, names, deadline):
    """Yields for each table its name, outcome, detail, seconds and gpu.table.Table, or None if it could not be made."""
    chosen = [table for table in TABLES if table.name in names]
    times = budget.Budget(deadline, {table.name: table.weight for table in chosen if table.needs not in bench.missing})
    for table in chosen:
        began = time.monotonic()
        made, outcome, detail = measure_one(bench, table, times)
        yield table.name, outcome, detail, time.monotonic() - began, made


def measure_one(bench, table, times):
    """Returns the table, or None, with outcome and detail."""
    if table.needs in bench.missing:
        return None, "SKIP", bench.missing[table.needs]
    try:
        made = table.measure(bench, times.share(table.name, table.least))
    except budget.OutOfTime as reason:
        return None, "SKIP", str(reason)
    except Exception as error:  # whatever it is, it must not cost the other tables
        traceback.print_exc()
        return None, "FAIL", f"{type(error).__name__}: {str(error)[-600:]}"
    return made, "FAIL" if made.failed() else "PASS", made.in_words()

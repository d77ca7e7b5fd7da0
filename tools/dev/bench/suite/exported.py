"""Table: networks of torchvision and transformers, exported once and trained by ddprun, beside the same in Python."""

import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import ddprun
import exported_peer
import numpy
from suite import comparison, pairs, peers, process, report, sides
from suite.comparison import MEMORY, START

TITLE = "Exported networks beside Python"
BENCH = pathlib.Path(__file__).resolve().parent.parent
STEP = comparison.Figure("step_ms", "a step, ms")
VOCABULARY, CLASSES, LENGTH = exported_peer.SMALL_GPT2["vocab_size"], 1_000, 64


@dataclasses.dataclass(frozen=True)
class Network:
    name: str
    source: str
    sizes: str  # of the input, for export_model
    batch: int
    steps: int
    settings: dict = dataclasses.field(default_factory=dict)

    @property
    def warm_up(self):
        return self.steps // 4


NETWORKS = [
    Network("resnet18", "torchvision:resnet18", "3x224x224", 16, 12),
    Network("vit_b_16", "torchvision:vit_b_16", "3x224x224", 4, 8),
    Network("gpt2", "transformers:GPT2LMHeadModel", f"{LENGTH}:int64:{VOCABULARY}", 8, 40, exported_peer.SMALL_GPT2),
]


@dataclasses.dataclass(frozen=True)
class Result:
    step_ms: float
    first_step_seconds: float
    peak_rss_bytes: int
    loss: float
    total_seconds: float = 0
    images_per_second: float = 0  # samples, for the progress lines

    @staticmethod
    def of(job, step_ended_at, **rest):
        speed = sides.speeds(job, step_ended_at)["images_per_second"]
        return Result(step_ms=1e3 * job.global_batch / speed, images_per_second=speed, **rest)


class Ours:
    name = "ddprun"

    def __init__(self, program, network, folder):
        self.program, self.network, self.folder = str(program), network, folder

    def experiment(self, job):
        is_text = "int64" in self.network.sizes
        data = {"plugin": "tensors", "train": [str(self.folder / "input.npy"), str(self.folder / "target.npy")],
                "classes": VOCABULARY if is_text else CLASSES}  # fmt: skip
        if is_text:
            data["symbols"] = True
        return {
            "name": self.network.name, "seed": 1, "dataset": data,
            "model": {"plugin": "exported", "file": str(self.folder / "net.pt2")},
            "optimizer": {"plugin": "sgd", "lr": 0.01, "momentum": 0.9}, "loggers": ["jsonl"],
            "objective": {"name": "cross_entropy", "metrics": []},  # the script in Python measures the loss alone
            "checkpoint": {"every": "never"},
            "trainer": {"max_epochs": 1, "max_steps": job.steps, "global_batch": job.global_batch, "shuffle": False, "log_every": 1},
            "launch": {"workers": 1, "threads": job.threads, "device": job.device},
        }  # fmt: skip

    def run(self, job, folder, timeout):
        folder = pathlib.Path(folder)
        (folder / "net.yaml").write_text(json.dumps(self.experiment(job)))  # JSON is YAML
        finished = process.run([self.program, "net.yaml", "run.dir=run"], {}, folder, timeout)
        rows = sides.read_rows(folder / "run", "train")
        return Result.of(
            job,
            {row["step"]: row["time"] for row in rows},
            first_step_seconds=sides.first_step_at(finished, ddprun.run(folder / "run").summary) - finished.started_at,
            peak_rss_bytes=sides.largest(finished),
            loss=rows[-1]["loss"],
            total_seconds=finished.seconds,
        )


class Python:
    name = "Python"

    def __init__(self, network, folder):
        self.network, self.folder = network, folder

    def run(self, job, folder, timeout):
        output = pathlib.Path(folder) / "result.json"
        command = [sys.executable, str(BENCH / "exported_peer.py"), f"--network={self.network.name}", f"--data={self.folder}",
                   f"--state={self.folder / 'net.pth'}", f"--max-steps={job.steps}", f"--global-batch={job.global_batch}",
                   f"--threads={job.threads}", f"--device={job.device}", "--log-every=1", f"--json={output}"]  # fmt: skip
        environment = {"OMP_NUM_THREADS": str(job.threads), "RANK": "0", **peers.KEEPS_MEMORY}
        finished = process.run(command, environment, folder, timeout)
        found = json.loads(output.read_text())
        return Result.of(
            job,
            {int(step): at for step, at in found["step_ended_at"].items()},
            first_step_seconds=found["first_step_seconds"],
            peak_rss_bytes=found["peak_rss_bytes"],
            loss=found["loss"],
            total_seconds=finished.seconds,
        )


@contextlib.contextmanager
def laid_out(network):
    """A folder with net.pt2, net.pth (the same weights), input.npy and target.npy."""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as name:
        folder = pathlib.Path(name)
        export = [sys.executable, str(BENCH.parents[1] / "export_model"), network.source, "--input", network.sizes, "--out", str(folder / "net.pt2")]
        export += [f"--set={name}={value}" for name, value in network.settings.items()]
        subprocess.run(export, check=True, stdout=sys.stderr)
        state = "import sys, torch; torch.save(torch.export.load(sys.argv[1]).state_dict, sys.argv[2])"
        subprocess.run([sys.executable, "-c", state, folder / "net.pt2", folder / "net.pth"], check=True)
        random, samples = numpy.random.default_rng(0), network.steps * network.batch
        if "int64" in network.sizes:
            arrays = random.integers(VOCABULARY, size=(samples, LENGTH)), random.integers(VOCABULARY, size=(samples, LENGTH))
        else:
            arrays = random.standard_normal((samples, 3, 224, 224), dtype=numpy.float32), random.integers(CLASSES, size=samples)
        for file, array in zip(("input", "target"), arrays, strict=True):
            numpy.save(folder / file, array)
        yield folder


def measure(options):
    rows, figures = [], {}
    threads = options.workers * options.threads
    for network in (one for one in NETWORKS if one.name in (options.network or [one.name])):
        job = sides.Job(model=network.name, workers=1, threads=threads, global_batch=network.batch, steps=network.steps, warm_up=network.warm_up, device=options.device)
        with laid_out(network) as folder:
            those = [Ours(options.program, network, folder), Python(network, folder)]
            ours, theirs = pairs.alternate(those, job, options.pairs, options.timeout)
        for figure in (STEP, START, MEMORY):
            mine, others = ([getattr(one, figure.key) for one in ones] for ones in (ours, theirs))
            rows.append([f"{network.name}, batch {network.batch}: {figure.text}", report.show(mine, figure.digits, figure.scale),
                         report.show(others, figure.digits, figure.scale), report.show(report.ratios(others, mine), 2)])  # fmt: skip
        rows.append([f"{network.name}: loss of step {network.steps}", f"{ours[0].loss:.5f}", f"{theirs[0].loss:.5f}", ""])
        figures[network.name] = [dataclasses.asdict(one) for one in (*ours, *theirs)]
    text = (f"One worker, threads: {threads}, SGD with momentum; the first quarter of the steps is not in a step's time. "
            f"Rounds: {options.pairs}. Median (least .. most); ratios within a round.")  # fmt: skip
    return f"{text}\n\n" + report.markdown(["", "ddprun", "Python", "Python's over ddprun's"], rows), figures

"""Networks of torchvision and transformers, exported once and trained by ddprun, beside the same in Python."""

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from measure.comparisons.python import FIRST_STEP, MEMORY, ours
from measure.rounds import Side
from measure.table import Case, Figure, Ratio, Table
from measure.trainings import KEEPS_MEMORY, PEERS, ROOT, Job, train_script

STEP = Figure("step_ms", "a step, ms", more_is_better=False)
LOSS = Figure("loss", "last loss", 5)
CLASSES, LENGTH, VOCABULARY = 1_000, 64, 8_192
SMALL_GPT2 = {"n_layer": 4, "n_head": 4, "n_embd": 256, "vocab_size": VOCABULARY}  # as in peers/exported_peer.py


@dataclasses.dataclass(frozen=True)
class Network:
    name: str
    source: str
    sizes: str  # of the input, for export_model
    batch: int
    steps: int  # the first quarter is not in a step's time
    settings: dict = dataclasses.field(default_factory=dict)

    @property
    def reads_text(self):
        return "int64" in self.sizes


NETWORKS = [
    Network("resnet18", "torchvision:resnet18", "3x224x224", 16, 12),
    Network("vit_b_16", "torchvision:vit_b_16", "3x224x224", 4, 8),
    Network("gpt2", "transformers:GPT2LMHeadModel", f"{LENGTH}:int64:{VOCABULARY}", 8, 40, SMALL_GPT2),
]


def cases(bench):
    options = bench.options
    for network in (one for one in NETWORKS if one.name in (options.network or [one.name])):
        with laid_out(bench, network) as folder:
            job = Job(network.batch, network.steps, network.steps // 4, str(folder / "net.yaml"), ("trainer.log_every=1",), ("--log-every=1",),
                      threads=options.workers * options.threads, device=options.device)  # fmt: skip
            command = [
                sys.executable,
                PEERS / "exported_peer.py",
                f"--network={network.name}",
                f"--data={folder}",
                f"--state={folder / 'net.pth'}",
            ]
            python = lambda seconds: train_script(command, job, seconds, folder, {"RANK": "0", **KEEPS_MEMORY})  # noqa: B023, E731
            ratios = tuple(Ratio("ddprun", "Python", figure) for figure in (STEP, FIRST_STEP, MEMORY))
            yield Case(
                [ours(bench, job), Side("Python", python)],
                (STEP, FIRST_STEP, MEMORY, LOSS),
                ratios,
                f"{network.name}, batch {network.batch}",
            )


@contextlib.contextmanager
def laid_out(bench, network):
    """A folder with net.pt2, net.pth (the same weights), input.npy, target.npy and net.yaml."""
    import numpy

    with tempfile.TemporaryDirectory(prefix="exported-", dir=bench.folder) as name:
        folder = pathlib.Path(name)
        export = [
            sys.executable,
            str(ROOT / "tools/export_model"),
            network.source,
            "--input",
            network.sizes,
            "--out",
            str(folder / "net.pt2"),
        ]
        export += [f"--set={name}={value}" for name, value in network.settings.items()]
        subprocess.run(export, check=True, stdout=sys.stderr)
        state = "import sys, torch; torch.save(torch.export.load(sys.argv[1]).state_dict, sys.argv[2])"
        subprocess.run([sys.executable, "-c", state, folder / "net.pt2", folder / "net.pth"], check=True)
        random, samples = numpy.random.default_rng(0), network.steps * network.batch
        if network.reads_text:
            arrays = (
                random.integers(VOCABULARY, size=(samples, LENGTH)),
                random.integers(VOCABULARY, size=(samples, LENGTH)),
            )
        else:
            arrays = (
                random.standard_normal((samples, 3, 224, 224), dtype=numpy.float32),
                random.integers(CLASSES, size=samples),
            )
        for file, array in zip(("input", "target"), arrays, strict=True):
            numpy.save(folder / file, array)
        (folder / "net.yaml").write_text(json.dumps(experiment(network, folder)))  # JSON is YAML
        yield folder


def experiment(network, folder):
    data = {"plugin": "tensors", "train": [str(folder / "input.npy"), str(folder / "target.npy")],
            "classes": VOCABULARY if network.reads_text else CLASSES}  # fmt: skip
    return {
        "name": network.name, "seed": 1, "dataset": {**data, **({"symbols": True} if network.reads_text else {})},
        "model": {"plugin": "exported", "file": str(folder / "net.pt2")},
        "optimizer": {"plugin": "sgd", "lr": 0.01, "momentum": 0.9}, "loggers": ["jsonl"],
        "objective": {"name": "cross_entropy", "metrics": []},  # the script in Python measures the loss alone
        "trainer": {"shuffle": False},
    }  # fmt: skip


def in_words(bench):
    return (f"One worker, threads: {bench.options.workers * bench.options.threads} of {len(os.sched_getaffinity(0))} cores, SGD with momentum; the "
            "first quarter of the steps is not in a step's time.")  # fmt: skip


TABLES = [Table("exported", "networks of torchvision and transformers, exported and trained by ddprun, beside the same in Python", cases,
                words=in_words)]  # fmt: skip

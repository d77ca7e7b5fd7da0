"""Checks of models: each trains on a GPU as it does on the CPU, in each memory format and precision, with CUDA graphs and without."""

import dataclasses
import math
import pathlib
import re
import subprocess
import time

from measure.gpu.checks.context import SAME, SMALL, Skip, compare, same

EXPORT_MODEL = pathlib.Path(__file__).resolve().parents[4] / "export_model"
STEPS = 14  # 12 ordinary ones, then a graph is recorded and replayed
COMPARED = 4  # of them with a CPU's: BatchNorm magnifies what differs by rounding, in resnet from 3e-7 to 2e-2 of the loss in 12 steps
FEW = ["trainer.global_batch=32", "optimizer.lr=0.01", "dataset.val_size=32", "dataset.test_size=32"]
DIGITS = [*FEW, "dataset.train_size=448"]
TEXT = ("trainer.global_batch=16", "optimizer.lr=0.01", "dataset.size=40000")
REHEARSED = ["trainer.global_batch=8", "dataset.train_size=112", "optimizer.lr=0.001"]  # a CPU takes minutes for convolutions in fp16
# How far losses may be from those of a CPU in float32, as a part of the first one.
TOLERANCES = {"fp32_exact": 5e-3, "fp32": 5e-2, "bf16": 0.25, "fp16": 0.25, "bf16_pure": 0.35}
MODULE = """
from torch import nn
def net():
    return nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 13 * 13, 10))
"""


@dataclasses.dataclass(frozen=True)
class Network:
    words: tuple
    experiment: str = "digits"
    of_images: bool = True  # has memory formats
    draws: bool = False  # random numbers of the GPU's own: no CPU trains the same
    stops_early: bool = True  # so its experiment says
    is_large: bool = False  # a CPU would take minutes for it in fp16


NETWORKS = {
    "keras_convnet": Network(("model=keras_convnet", "model.dropout=0", *DIGITS)),
    "convnet": Network(("model=convnet", "model.dropout=0", *DIGITS)),
    "convnet_bn": Network(("model=convnet_bn", *DIGITS)),
    "wide_resnet": Network(("model=wide_resnet", "model.depth=10", "model.widen_factor=1", *DIGITS)),
    "resnet": Network(("model=resnet", *DIGITS), is_large=True),
    "lenet": Network(("model=lenet", *DIGITS)),
    "mlp": Network(("model=mlp", *DIGITS), of_images=False),
    "transformer": Network(TEXT, "text", of_images=False),
    "transformer_dropout": Network(("model.dropout=0.1", *TEXT), "text", of_images=False, draws=True),
    "exported": Network(("model=exported", *DIGITS)),
    "gan": Network(DIGITS, "gan", draws=True, stops_early=False, is_large=True),
}  # fmt: skip


def backend_loads(context):
    """the GPU backend loads, and a few steps run on the GPU"""
    context.train("backend", ["model=mlp", "trainer=smoke", *SMALL])
    found = re.search(r"\d+ workers? on (.*)", context.ddprun.output("backend"))
    assert found, "the console does not say where it trains"
    where = found.group(1).strip()
    assert (where == "cpu") == (not context.gpus), f"it trained on {where}"
    return where


def digits_accuracy(context):
    """digits.yaml reaches 97 % of the test images"""
    context.require_gpu()
    summary = context.train("digits", []).summary()
    share = summary["test_correct"] / summary["test_total"]
    text = f"{100 * share:.2f} % in {summary['total_seconds']:.1f} s"
    assert share >= 0.97, text
    return text


def gan_paints(context):
    """gan: 100 steps in float32 and bf16 keep both players' losses finite, and each evaluation paints"""
    steps = 5 if context.rehearse else 100
    precisions = ("fp32", "bf16") if context.gpus else ("fp32",)
    runs = context.train_at_once({f"gan_{precision}": ["trainer.deterministic=true", "trainer.log_every=1", *SMALL,
                                                       f"trainer.max_steps={steps}", f"trainer.precision={precision}"]
                                  for precision in precisions}, "gan")  # fmt: skip
    for name, run in runs.items():
        rows = run.rows()
        assert len(rows) == steps and not any("nonfinite" in row for row in rows), f"{name}: {len(rows)} rows, or one not finite"
        assert list((run.folder / "images/val").glob("*_step_*.png")), f"{name}: nothing was painted"
    return "finite, and painted"


def class_weights(context):
    """weights of the classes: their losses in replayed steps have the bits of ordinary ones"""
    weights = ",".join(str(1 + number % 3) for number in range(10))
    words = ["model=convnet_bn", *SAME, *DIGITS, f"trainer.max_steps={STEPS}", f"+objective={{class_weights: [{weights}]}}"]
    if not context.gpus:
        return f"loss {context.train('weighted', words).losses()[STEPS]:.3f}"
    runs = context.train_at_once({mode: [*words, f"trainer.cuda_graph={mode}"] for mode in ("on", "off")})
    same(runs["on"], runs["off"])
    return f"{runs['on'].summary()['replayed_steps']} steps replayed"


def little_memory(context):
    """a GPU of which one step takes 60 %: two epochs with a ragged last batch go through, graphs or not"""
    batch, steps = (32, 3) if context.rehearse else (2048, 14)
    words = ["model=wide_resnet", "model.depth=16", "model.widen_factor=1" if context.rehearse else "model.widen_factor=4", *SAME,
             f"trainer.global_batch={batch}", f"dataset.train_size={steps * batch + batch // 2}", "dataset.val_size=32",
             "dataset.test_size=32", "trainer.eval_batch=32", "trainer.system_metrics_seconds=0.1", "trainer.max_epochs=2"]  # fmt: skip
    if not context.gpus:
        return f"{len(context.train('two_epochs', words).losses())} steps"
    first = context.train("whole_memory", [*words, "trainer.cuda_graph=off", "trainer.max_steps=10"])
    needed = first.rows("system")[-1]["gpu_memory_bytes"]  # when cuDNN has chosen, which takes more
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    whole = 2**20 * int(subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout.split()[0])
    share = {"PYTORCH_CUDA_ALLOC_CONF": f"per_process_memory_fraction:{needed / 0.6 / whole:.4f}"}
    run = context.train("little_memory", words, environment=share)
    assert len(run.losses()) == 2 * (steps + 1), f"{len(run.losses())} rows"
    return f"a step takes {needed / 1e9:.1f} GB of {needed / 0.6e9:.1f}; replayed: {run.summary()['replayed_steps']} of {2 * (steps + 1)}"


def out_of_memory(context):
    """a batch beyond the GPU's memory is reported with what to change; micro_batch=auto trains it"""
    context.require_gpu()
    batch, widen, share = (512, 1, {"PYTORCH_CUDA_ALLOC_CONF": "per_process_memory_fraction:0.1"}) if context.rehearse else (65536, 10, {})
    words = [f"dataset.train_size={batch}", "dataset.val_size=64", "dataset.test_size=64", *SAME, "model=wide_resnet", "model.depth=16",
             f"model.widen_factor={widen}", f"trainer.global_batch={batch}", "trainer.max_steps=1"]  # fmt: skip
    _, process = context.ddprun.start("oom", "digits", words, share)
    status = context.ddprun.status(process, "oom")
    text = context.ddprun.output("oom")
    assert status == 1 and "trainer.micro_batch=auto" in text, f"exit code {status}: {text[-300:]}"
    context.train("oom_auto", [*words, "trainer.micro_batch=auto"], environment=share)
    found = re.search(r"auto found (\d+) samples", context.ddprun.output("oom_auto"))
    return f"auto found {found.group(1)} samples of {batch}" if found else f"{batch} samples fit at once"


def models(precision):
    """The check of all networks in this precision."""

    def check(context):
        return Matrix(context, precision).run()

    check.__name__ = f"models_{precision}"
    check.__doc__ = (f"each model in {precision}, each memory format: the first {COMPARED} of {STEPS} steps near the CPU's, and replayed from CUDA graphs with the "
                     "bits of ordinary ones")  # fmt: skip
    return check


class Matrix:
    """All networks in one precision. A network that fails hides no other."""

    def __init__(self, context, precision):
        self.context = context
        self.precision = precision
        self.steps = STEPS if context.gpus else 3
        self.failures = []
        self.not_run = []
        self.words = []

    def run(self):
        if not self.context.gpus and self.precision == "fp16":
            raise Skip(f"{self.precision} needs a GPU")
        self.context.at_once({name: lambda name=name: self.attempt(name) for name in NETWORKS}, most=8)
        text = f"{len(self.words)} passed; " + "; ".join(self.failures or self.words)
        if self.not_run:
            text += f"; not run: {', '.join(self.not_run)}"
        assert self.words and not self.failures, text
        return text

    def attempt(self, name):
        for layout in layouts_of(NETWORKS[name]):
            if time.monotonic() > self.context.deadline - 5:
                self.not_run.append(f"{name} {layout} (no time)")
                continue
            try:
                self.words.append(f"{name} {layout}: {self.train(name, layout)}")
            except Skip as reason:
                self.not_run.append(f"{name} {layout} ({reason})")
            except Exception as error:
                self.failures.append(f"{name} {layout}: {str(error)[-400:]}")
                print(f"FAIL {self.failures[-1]}", flush=True)

    def train(self, name, layout):
        network = NETWORKS[name]
        same_settings = [word for word in SAME if network.stops_early or word != "~early_stopping"]
        if self.context.rehearse and self.precision == "fp16" and network.is_large:
            raise Skip("too slow for a CPU")
        small = REHEARSED if self.context.rehearse and network.of_images else []
        words = [*network.words, *small, *same_settings, "launch.threads=1", f"trainer.max_steps={self.steps}", *self.words_of_file(name)]
        runs = {}
        for mode in ("on", "off") if self.context.gpus else ("",):
            graph = [f"trainer.cuda_graph={mode}"] if mode else []
            settings = [*words, f"trainer.precision={self.precision}", f"trainer.memory_format={layout}", *graph]
            runs[mode] = self.context.train(f"{name}_{layout}_{mode}".rstrip("_"), settings, network.experiment)
        first = next(iter(runs.values()))
        finite = [loss is not None and math.isfinite(loss) for loss in first.losses().values()]
        assert len(finite) == self.steps and all(finite), f"{sum(finite)} of {self.steps} losses are finite"
        if "on" in runs:
            summary = runs["on"].summary()
            assert summary["replayed_steps"] > 0, f"no step was replayed: {summary['cuda_graph']}"
            same(runs["on"], runs["off"])
        if network.draws:
            return "finite"
        expected = self.context.reference(name, words, network.experiment)
        return f"{compare(first, expected, TOLERANCES[self.precision], COMPARED):.0e}"

    def words_of_file(self, name):
        """The words that name a module written in Python."""
        if name != "exported":
            return []
        file = self.context.folder.parent / "net.pt2"
        if not file.exists():
            if not self.context.python:
                raise Skip("no Python with torch is known: --python")
            (self.context.folder / "net.py").write_text(MODULE)
            command = [self.context.python, EXPORT_MODEL, "net.py:net", "--input=1x28x28", "--out=net.pt2"]
            subprocess.run(command, cwd=self.context.folder, check=True, timeout=60)
            (self.context.folder / "net.pt2").rename(file)
        return [f"model.file={file}"]


def layouts_of(network):
    return ("channels_first", "channels_last") if network.of_images else ("channels_first",)

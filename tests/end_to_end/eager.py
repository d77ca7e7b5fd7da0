# SPDX-License-Identifier: MIT
"""A module that is trained twice on the same data: by PyTorch in Python, and by ddprun as a torch.export file."""

import inspect
import json
import logging
import pathlib
import sys
import warnings

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/lib"), str(ROOT / "sdk/python"), str(ROOT / "tests/support")]
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

from export_model.archive import write_archive  # noqa: E402
from export_model.check import check_programs  # noqa: E402
from export_model.hidden import check_module  # noqa: E402
from export_model.inputs import examples, parse_input, parse_inputs  # noqa: E402
from export_model.programs import export_programs  # noqa: E402

import weights  # noqa: E402
from command import losses_of  # noqa: E402, F401; what is asked of a run beside weights_of()

STEPS, BATCH, LR, SEED = 20, 4, 0.01, 1
torch.set_num_threads(1)


def train(network, batches, optimizer, loss=torch.nn.functional.cross_entropy, before=lambda step: None, clip=lambda: None,
          after=lambda step: None):
    """The losses of the loop that everybody writes, a step for each of the batches (inputs, targets)."""
    losses = []
    for step, (inputs, targets) in enumerate(batches):
        before(step)
        value = loss(network(inputs), targets)
        optimizer.zero_grad()
        value.backward()
        clip()
        optimizer.step()
        after(step)
        losses.append(value.item())
    return losses


class Training:
    """What both train with: batches in the order of the file, SGD with momentum."""

    def __init__(self, module, inputs, folder, steps=STEPS, batch=BATCH, loss=torch.nn.functional.cross_entropy):
        self.module, self.folder, self.steps, self.batch, self.loss = module, folder, steps, batch, loss
        self.inputs = parse_inputs(inputs, module)
        self.data = examples(self.inputs, steps * batch, seed=3)
        module.eval()
        with torch.no_grad():
            shape = module(**{name: values[:2] for name, values in self.data.items()}).shape
        module.train()
        self.of_pixels = len(shape) > 3  # [B, C, H, W], or of voxels
        self.classes = shape[1 if self.of_pixels else -1]
        generator = torch.Generator().manual_seed(4)
        parts = shape[2:] if self.of_pixels else shape[1:-1]
        self.target = torch.randint(0, self.classes, (steps * batch, *parts), generator=generator)

    def export(self, check=True):
        if check:
            check_module(self.module, self.inputs)
        programs = export_programs(self.module, self.inputs)
        if check:
            check_programs(self.module, programs, self.inputs)
        write_archive(self.folder / "net.pt2", programs, self.inputs, "a test")
        self.nodes = sum(node.op == "call_function" for node in programs[0].graph.nodes)

    def experiment(self):
        """Writes data.safetensors and net.yaml."""
        first, *others = [name for name in self.data if self.data[name] is not self.target]
        named = {"input": self.data[first], "target": self.target, **{name: self.data[name] for name in others}}
        weights.save(self.folder / "data.safetensors", named)
        dataset = {"plugin": "tensors", "train": "data.safetensors"}
        if self.classes:
            dataset["classes"] = self.classes
        if self.data[first].dtype == torch.int64:
            dataset["symbols"] = True
        if others:
            dataset["extras"] = others
        experiment = {
            "name": "net", "seed": SEED, "dataset": dataset,
            "model": {"plugin": "exported", "file": "net.pt2"},
            "optimizer": {"plugin": "sgd", "lr": LR, "momentum": 0.9},
            "loggers": ["jsonl"],
            "checkpoint": {"every": "1ep"},
            "trainer": {"max_epochs": 1, "global_batch": self.batch, "shuffle": False, "memory_format": "channels_first", "log_every": 1},
            "launch": {"workers": 1, "threads": 1, "device": "cpu"},
        }
        file = self.folder / "net.yaml"
        file.write_text(json.dumps(experiment))  # JSON is YAML
        return file

    def write(self, check=True):
        """The network's file, the data and the experiment. Returns itself."""
        self.export(check)
        self.experiment()
        return self

    def assert_same(self, test, run):
        """That this run of ddprun has Python's losses and weights, in every bit."""
        test.assertEqual(losses_of(run), self.in_python())
        test.assertEqual(unequal(self.module, weights_of(run)), [])

    def in_python(self, autocast=False):
        """The losses of the steps; the module is trained."""
        torch.manual_seed(SEED)
        optimizer = torch.optim.SGD(self.module.parameters(), lr=LR, momentum=0.9, fused=True)
        losses = []
        for step in range(self.steps):
            part = slice(step * self.batch, (step + 1) * self.batch)
            optimizer.zero_grad()
            loss = self.loss_of(part, autocast)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def called(self, part):
        return self.module(**{name: values[part] for name, values in self.data.items()})

    def loss_of(self, part, autocast):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            output = self.called(part)
        target = self.target[part]
        if not self.of_pixels:
            output, target = output.reshape(-1, self.classes), target.reshape(-1)
        return self.loss(output.float(), target)


class OwnTraining(Training):
    """Of a network that computes its loss. `words` are those of --input; `loss` gives it of (the module's result, the inputs)."""

    def __init__(self, module, words, first, folder, target=None, classes=0, steps=STEPS, batch=BATCH, loss=lambda result, given: result["loss"]):
        self.module, self.folder, self.steps, self.batch, self.classes, self.loss = module, folder, steps, batch, classes, loss
        self.data = examples([parse_input(word, first) for word in words], steps * batch, seed=3)
        self.target = self.data[target] if target else torch.zeros(steps * batch)

    def called(self, part):
        given = inspect.signature(self.module.forward).parameters
        return self.module(**{name: values[part] for name, values in self.data.items() if name in given})

    def loss_of(self, part, autocast):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            return self.loss(self.called(part), {name: values[part] for name, values in self.data.items()})


def weights_of(run):
    return weights.load(run / "checkpoints/last/model.safetensors")


def unequal(module, found):
    """The names of the module's weights and buffers that are not found with the same bits."""
    return [name for name, value in module.state_dict().items()
            if name not in found or not torch.equal(found[name].nan_to_num(7), value.nan_to_num(7))]

# SPDX-License-Identifier: MIT
"""Modules written in Python, exported and trained by the command."""

import signal
import unittest

import torch
from torch import nn

import weights
from command import SMALL, CommandTest, differences
from networks import ConvNetBn

WORDS = [*SMALL, "model=torchscript", "model.file=network.pt", "optimizer.lr=0.01"]


class Everything(nn.Module):
    """Dropout, BatchNorm in a child's child, tied weights, a frozen one, a buffer that forward assigns anew."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(784, 32), nn.Sequential(nn.BatchNorm1d(32), nn.Tanh()), nn.Dropout(0.3))
        self.again = nn.Linear(32, 32, bias=False)
        self.tied = nn.Linear(32, 32)
        self.tied.weight = self.again.weight
        self.frozen = nn.Parameter(torch.ones(32), requires_grad=False)
        self.head = nn.Linear(32, 10)
        self.register_buffer("steps", torch.zeros([], dtype=torch.long))

    def forward(self, images, scale: float = 1.0):
        if self.training:
            self.steps = self.steps + 1
        hidden = self.body(images.flatten(1)) * self.frozen
        return self.head(self.tied(torch.tanh(self.again(hidden)))) * scale


class TwoInputs(nn.Module):
    def forward(self, images, masks):
        return images * masks


class TwoResults(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(784, 10)

    def forward(self, images):
        return self.head(images.flatten(1)), images


class TorchScript(CommandTest):
    def export(self, module):
        torch.jit.script(module).save(str(self.folder / "network.pt"))
        return module

    def checkpoint(self, run):
        return weights.load(self.folder / run / "checkpoints/last/model.safetensors")

    def assert_same_weights(self, run, other):
        mine, others = self.checkpoint(run), self.checkpoint(other)
        self.assertEqual(mine.keys(), others.keys())
        for name in mine:
            self.assertTrue(torch.equal(mine[name], others[name]), name)

    def test_a_module_trains_bit_for_bit_as_the_plugin_of_the_same_network(self):
        torch.manual_seed(1)
        weights.save(self.folder / "start.safetensors", self.export(ConvNetBn()).state_dict())
        # In channels_last the plugin pools in passes of its own, which agree within rounding.
        words = ["pretrained.file=start.safetensors", "launch.workers=2", "trainer.memory_format=channels_first"]
        self.ddprun(*WORDS, *words, "run.dir=script")
        self.ddprun(*SMALL, *words, "model=convnet_bn", "optimizer.lr=0.01", "run.dir=plugin")
        self.assertEqual(differences(self.folder / "script", self.folder / "plugin"), {})
        self.assert_same_weights("script", "plugin")

    def test_it_starts_with_the_weights_of_the_file(self):
        torch.manual_seed(2)
        start = self.export(Everything()).state_dict()
        self.ddprun(*WORDS, "optimizer.lr=0", "run.dir=run", "launch.workers=1")
        found = self.checkpoint("run")
        for name, tensor in start.items():
            if "running" not in name and name not in ("steps", "body.1.0.num_batches_tracked"):
                self.assertTrue(torch.equal(found[name], tensor), name)

    def test_trained_weights_fit_the_module_in_python(self):
        module = self.export(Everything())
        self.ddprun(*WORDS, "run.dir=run", "launch.workers=2")
        found = self.checkpoint("run")
        module.load_state_dict(found)  # every name, nothing else
        self.assertEqual(int(module.steps), 20)  # the step that settles the exchange of gradients leaves no trace
        self.assertEqual(int(module.body[1][0].num_batches_tracked), 20)
        self.assertTrue(torch.equal(module.frozen, torch.ones(32)))
        self.assertTrue(torch.equal(found["tied.weight"], found["again.weight"]))

    def test_a_stopped_run_goes_on_bit_for_bit(self):
        self.export(Everything())
        words = [*WORDS, "trainer.max_epochs=4", "launch.workers=2"]
        self.ddprun(*words, "run.dir=whole")
        stopped = self.start_held(6, *words, "run.dir=run")
        stopped.send(signal.SIGTERM)
        self.assertEqual(stopped.wait(), 75, stopped.text())
        self.ddprun("resume", "run")
        self.assert_same_weights("run", "whole")

    # Mistakes

    def refuse(self, *texts):
        message = self.ddprun(*WORDS, "launch.workers=2", "run.dir=run", code=2).err()
        for text in texts:
            self.assertIn(text, message)
        for word in ("internal", "terminate called", "frame #"):
            self.assertNotIn(word, message)
        self.assert_nothing_left()

    def test_a_file_that_is_not_there(self):
        message = self.assert_refused(*WORDS)
        self.assertIn(f"model.file: no such file: {self.folder}/network.pt", message)
        self.assert_refused("check", *WORDS)

    def test_a_file_of_another_kind(self):
        torch.save(ConvNetBn().state_dict(), self.folder / "network.pt")
        self.refuse("network.pt is not a TorchScript archive", "torch.jit.script(module).save")

    def test_a_forward_of_other_arity(self):
        self.export(TwoInputs())
        self.refuse("Tensor images, Tensor masks", "expected one tensor as input")

    def test_a_forward_with_two_results(self):
        self.export(TwoResults())
        self.refuse("-> ((Tensor, Tensor)", "one as result")

    def test_a_frozen_module(self):
        torch.jit.freeze(torch.jit.script(ConvNetBn().eval())).save(str(self.folder / "network.pt"))
        self.refuse("has no parameters to train", "torch.jit.freeze")


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()

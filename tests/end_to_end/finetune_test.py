# SPDX-License-Identifier: MIT
"""Fine-tuning against Python: weights of somebody else's network with a new head, parts of it frozen until later, lower learning rates for
lower layers. And what is said about weights that do not fit."""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest

import safetensors.torch
import torch
from torch import nn

from command import CommandTest, all_rows, nightly
from eager import Training
from training_parity_test import ConvNetBn

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS, SAMPLES, BATCH, EPOCH = 50, 157, 24, 7  # the last batch of an epoch has 13 samples
LR, DECAY, UNFROZEN = 0.01, 0.75, 2 * EPOCH
FROZEN = ("layer1.0.weight", "layer1.0.bias", "layer1.1.weight", "layer1.1.bias", "layer1.1.running_mean", "layer1.1.running_var",
          "layer1.1.num_batches_tracked")
SECTION = ("{file: pretrained, rename: {\"^module\\\\.\": \"\"}, skip: [fc.*], freeze: [\"layer1.*\"], unfreeze: {2ep: \"layer1.*\"},"
           f" layer_decay: {DECAY}}}")


def load(path):
    return safetensors.torch.load_file(path)


class FineTuning(CommandTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(3)
        torch.set_num_threads(1)
        self.inputs = torch.randn(SAMPLES, 1, 8, 8)
        self.targets = (self.inputs.flatten(1) @ torch.randn(64, 5)).argmax(1)
        safetensors.torch.save_file({"input": self.inputs, "target": self.targets}, self.folder / "train.safetensors")
        self.network = ConvNetBn()
        self.network.fc = nn.Linear(128, 9)  # another task's
        for _ in range(5):
            self.network(torch.randn(32, 1, 8, 8) * 2 + 0.5)
        with torch.no_grad():
            for parameter in self.network.parameters():
                parameter += 0.05 * torch.randn_like(parameter)
        self.state = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}

    def write_shards(self):
        """As they are published: two files, their names with a prefix, an index."""
        (self.folder / "pretrained").mkdir()
        places = {}
        for number in (1, 2):
            name = f"model-0000{number}-of-00002.safetensors"
            part = {f"module.{key}": tensor for i, (key, tensor) in enumerate(self.state.items()) if i % 2 == number - 1}
            safetensors.torch.save_file(part, self.folder / "pretrained" / name)
            places |= dict.fromkeys(part, name)
        (self.folder / "pretrained/model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))

    def write_experiment(self, section):
        (self.folder / "e.yaml").write_text(
            "name: tuned\nseed: 1\nmodel: convnet_bn\ndataset: {plugin: tensors, train: train.safetensors}\n"
            f"optimizer: {{plugin: sgd, lr: {LR}, momentum: 0.9, weight_decay: 0.01}}\npretrained: {section}\n"
            f"trainer: {{max_epochs: 1000, max_steps: {STEPS}, global_batch: {BATCH}, shuffle: false, log_every: 1, sync_batchnorm: true}}\n"
            "checkpoint: {every: 1ep, keep: 100}\nlaunch: {device: cpu, threads: 1, workers: 1}\n")

    def losses(self, run):
        return [row["loss"] for row in all_rows(self.folder / run) if row["split"] == "train"]

    def first_head(self):
        """What ddprun draws for the layers that begin anew."""
        self.ddprun("e.yaml", "trainer.max_steps=1", "optimizer.lr=0", "run.dir=head")
        return load(self.folder / "head/checkpoints/last/model.safetensors")

    # Against Python

    def losses_of_python(self, head):
        self.network.fc = nn.Linear(128, 5)
        self.network.load_state_dict(self.state | {name: head[name] for name in ("fc.weight", "fc.bias")})
        layers = (self.network.layer1, self.network.layer2, self.network.fc)
        optimizer = torch.optim.SGD([{"params": list(layer.parameters()), "lr": LR * DECAY ** (2 - i)} for i, layer in enumerate(layers)],
                                    momentum=0.9, weight_decay=0.01)
        losses = []
        batches = list(zip(self.inputs.split(BATCH), self.targets.split(BATCH)))
        for step in range(STEPS):
            self.network.layer1.requires_grad_(step >= UNFROZEN).train(step >= UNFROZEN)
            loss = nn.functional.cross_entropy(self.network(batches[step % EPOCH][0]), batches[step % EPOCH][1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def test_fifty_steps_are_those_of_python_and_what_is_frozen_keeps_its_bits(self):
        self.write_shards()
        self.write_experiment(SECTION)
        text = self.ddprun("check", "e.yaml").out()
        self.assertIn("pretrained: 14 tensors loaded from pretrained, 2 new: fc.weight, fc.bias.\n", text)
        self.assertIn("pretrained: 3 layers, whose lr is that of the next one times 0.75: from 0.5625 of it for layer1.0.weight to all of it "
                      "for fc.weight.\n", text)
        self.assertIn("pretrained: 4 of 10 parameters are frozen (3.2 % of the weights), 4 of them until 2ep.\n", text)
        pythons = self.losses_of_python(self.first_head())
        self.assertLess(pythons[-1], 0.7 * pythons[0])  # it has learnt, so the comparison means something
        for workers in (1, 2):
            said = self.ddprun("e.yaml", f"launch.workers={workers}", f"run.dir=run{workers}")
            self.assertIn("pretrained: 14 tensors loaded from pretrained", said.err())
            mine = self.losses(f"run{workers}")
            self.assertEqual(len(mine), STEPS)
            difference = max(abs(one - other) for one, other in zip(mine, pythons))
            print(f"losses {pythons[0]:.4f} .. {pythons[-1]:.4f}; {workers} workers differ by up to {difference:.0e}")
            self.assertLess(difference, 1e-5)
            frozen = load(self.folder / f"run{workers}/checkpoints/step_{UNFROZEN:08}/model.safetensors")
            for name in FROZEN:
                self.assertTrue(torch.equal(frozen[name], self.state[name]), name)
            self.assertFalse(torch.equal(frozen["layer2.1.running_mean"], self.state["layer2.1.running_mean"]))
            end = load(self.folder / f"run{workers}/checkpoints/last/model.safetensors")
            for name, tensor in self.network.state_dict().items():
                torch.testing.assert_close(end[name], tensor, rtol=1e-3, atol=1e-5)
        events = [json.loads(line) for line in (self.folder / "run2/events.jsonl").read_text().splitlines()]
        self.assertIn("all 10 parameters train", str([event for event in events if event.get("kind") == "unfrozen"]))

    # kill -9

    def test_killed_while_frozen_and_after_it_ends_with_the_same_bits_and_on_other_workers_within_rounding(self):
        self.write_shards()
        self.write_experiment(SECTION)
        words = ("e.yaml", "launch.workers=2", "trainer.ema_decay=0.9", "trainer.max_steps=24", "checkpoint.every=3st")
        self.ddprun(*words, "run.dir=whole")
        start = (*words, "run.dir=run")
        for attempt, step in enumerate((8, UNFROZEN, 20)):
            running = self.start_held(step, *start, attempt=attempt)
            self.kill(running)
            start = ("resume", "run")
            if attempt == 0:
                shutil.copytree(self.folder / "run", self.folder / "other", symlinks=True)  # in its frozen phase
        self.ddprun("resume", "run")
        last = [self.folder / run / "checkpoints/last" for run in ("run", "whole")]
        for name in ("model.safetensors", "ema.safetensors", "optimizer.safetensors"):
            self.assertEqual((last[0] / name).read_bytes(), (last[1] / name).read_bytes(), name)
        self.ddprun("resume", "other", "trainer.max_steps=18", "launch.workers=1")
        self.ddprun("resume", "other", "trainer.max_steps=24", "launch.workers=2")
        other = load(self.folder / "other/checkpoints/last/model.safetensors")
        for name, tensor in load(last[1] / "model.safetensors").items():
            torch.testing.assert_close(other[name], tensor, rtol=1e-4, atol=1e-5)

    # Other files and models

    def test_a_file_of_sixteen_bits_and_one_of_torch_save_start_it_alike(self):
        self.state = {name: tensor.bfloat16() if tensor.is_floating_point() else tensor for name, tensor in self.state.items()}
        torch.save({"epoch": 3, "state_dict": {f"module.{name}": tensor for name, tensor in self.state.items()}}, self.folder / "net.pth")
        self.write_experiment("{file: net.safetensors, rename: {\"^module\\\\.\": \"\"}, skip: [\"fc.*\"]}")
        refused = self.ddprun("check", "e.yaml", "pretrained.file=net.pth", code=2).err()
        self.assertIn(f"torch.save() wrote it, as code for Python. Convert it: ddprun-convert-weights {self.folder}/net.pth", refused)
        self.convert("net.pth", "net.safetensors")
        said = self.ddprun("e.yaml", "trainer.max_steps=3", "run.dir=run").err()
        self.assertIn("14 tensors loaded from net.safetensors (bfloat16 to float32), 2 new: fc.weight, fc.bias", said)
        head = load(self.folder / "run/checkpoints/last/model.safetensors")
        self.network.fc = nn.Linear(128, 5)
        first = self.first_head()
        self.network.load_state_dict({name: self.state.get(name, tensor).to(tensor.dtype) if name[:2] != "fc" else tensor
                                      for name, tensor in first.items()})
        loss = nn.functional.cross_entropy(self.network(self.inputs[:BATCH]), self.targets[:BATCH])
        self.assertAlmostEqual(self.losses("run")[0], loss.item(), delta=1e-5)
        self.assertEqual(head["layer1.0.weight"].dtype, torch.float32)

    def convert(self, *words, code=0):
        done = subprocess.run([sys.executable, ROOT / "tools/convert_weights", *words], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    @nightly
    def test_the_converter_says_what_it_cannot_read(self):
        torch.save({"net": {"w": torch.ones(2, dtype=torch.float16), "b": torch.ones(())}, "epoch": 3}, self.folder / "a.pt")
        torch.save(self.network, self.folder / "module.pt")
        (self.folder / "broken.pt").write_bytes((self.folder / "a.pt").read_bytes()[:100])
        self.assertIn("there are no tensors in it; there are 'net', 'epoch': --key names", self.convert("a.pt", "a.st", code=2))
        self.assertIn("it has no weights under 'nett'; there are 'net', 'epoch'", self.convert("a.pt", "a.st", "--key=nett", code=2))
        self.assertIn("save its weights in Python", self.convert("module.pt", "a.st", code=2))
        self.assertIn("broken.pt: it cannot be read", self.convert("broken.pt", "a.st", code=2))
        self.assertFalse((self.folder / "a.st").exists())
        self.assertIn("a.st: 2 tensors, 3 numbers", self.convert("a.pt", "a.st", "--key=net"))
        self.assertEqual(load(self.folder / "a.st")["w"].dtype, torch.float16)

    def test_the_frozen_statistics_of_an_exported_model_stay_too(self):
        self.network.fc = nn.Linear(128, 5)
        Training(self.network, ["1x8x8"], self.folder).export(check=False)
        self.write_experiment("{freeze: [\"layer1.*\"], unfreeze: {4st: \"layer1.*\"}}")
        self.ddprun("e.yaml", "model=exported", "model.file=net.pt2", "trainer.sync_batchnorm=false", "trainer.max_steps=6", "run.dir=run",
                    "checkpoint.every=1st")
        at = {step: load(self.folder / f"run/checkpoints/step_{step:08}/model.safetensors") for step in (4, 5)}
        for name in FROZEN:
            self.assertTrue(torch.equal(at[4][name], self.state[name]), name)
        self.assertEqual(at[4]["layer2.1.num_batches_tracked"] - self.state["layer2.1.num_batches_tracked"], 4)
        self.assertEqual(at[5]["layer1.1.num_batches_tracked"] - self.state["layer1.1.num_batches_tracked"], 1)

    # Mistakes

    def test_weights_that_do_not_fit_are_found_before_a_worker_starts_and_by_one_that_does(self):
        safetensors.torch.save_file(self.state, self.folder / "w.safetensors")
        self.write_experiment("{file: w.safetensors}")
        refused = self.ddprun("check", "e.yaml", code=2).err()
        self.assertIn("e.yaml:6:20: pretrained.file: ", refused)
        self.assertIn("fc.weight is [9, 128] in the file and [5, 128] in the model\n", refused)
        self.assertIn("If these are to start from new values: pretrained.skip: [fc.*]", refused)
        self.assertIn("fc.weight is [9, 128] in the file", self.ddprun("e.yaml", "run.dir=run", code=2).err())
        (self.folder / "half.safetensors").write_bytes((self.folder / "w.safetensors").read_bytes()[:5000])
        safetensors.torch.save_file({"a.weight": torch.zeros(3)}, self.folder / "alien.safetensors")
        for words, message in {
            ("--no-data", "pretrained.file=none.safetensors"): "none.safetensors: no such file or folder",
            ("pretrained.file=half.safetensors",): "half.safetensors: not a valid safetensors file: ",
            ("pretrained.file=alien.safetensors",): "None of its tensors fits: it is of another network",
            ("pretrained.skip=fcc.*",): "pretrained.skip: no tensor of the model or of the file matches \"fcc.*\"; did you mean fc.*?",
            ("pretrained.skip=fc.*", "pretrained.freeze=\"*\""): "pretrained.freeze: it freezes all parameters of the model",
            ("pretrained.skip=fc.*", "pretrained.freeze=layr1.*"): "pretrained.freeze: no parameter matches \"layr1.*\"; did you mean layer1.*?",
        }.items():
            with self.subTest(words=words):
                self.assertIn(message, self.ddprun("check", "e.yaml", *words, code=2).err())


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""A checkpoint's weights as one file for Python."""

import unittest

import torch

import weights
from command import SMALL, CommandTest


class Export(CommandTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"
        self.ddprun(*SMALL, "model=convnet_bn", "run.dir=run")
        self.before = self.all_files()

    def all_files(self):
        return {path: path.read_bytes() for path in self.run_folder.rglob("*") if path.is_file()}

    def weights_of(self, checkpoint):
        return weights.load(self.run_folder / "checkpoints" / checkpoint / "model.safetensors")

    def assert_same(self, found, checkpoint):
        expected = self.weights_of(checkpoint)
        self.assertEqual(found.keys(), expected.keys())
        for name, value in expected.items():
            self.assertTrue(torch.equal(found[name], value) and found[name].dtype == value.dtype, name)

    def test_both_formats_hold_the_last_weights_and_buffers(self):
        said = self.ddprun("export", "run", "--out", "m.safetensors").out()
        self.assertRegex(said, r"^m.safetensors: \d+ tensors of step_00000020: epoch 2, the (best and the )?last(; .*`best`)?\n$")
        self.assert_same(weights.load(self.folder / "m.safetensors"), "last")
        self.ddprun("export", "run", "last", "--out", "m.pt")
        self.assert_same(torch.load(self.folder / "m.pt", weights_only=True), "last")
        self.ddprun("export", "run", "--format", "torch", "--out", "weights")
        self.assert_same(torch.load(self.folder / "weights", weights_only=True), "last")
        self.assertTrue(any(name.endswith("running_mean") for name in self.weights_of("last")))
        self.assertEqual(self.all_files(), self.before)

    def test_a_checkpoint_is_chosen_by_its_name_or_path(self):
        self.ddprun("export", "run", "step_00000010", "--out", "a.safetensors")
        self.ddprun("export", "run", "run/checkpoints/step_00000010", "--out", "b.safetensors")
        for name in ("a", "b"):
            self.assert_same(weights.load(self.folder / f"{name}.safetensors"), "step_00000010")

    def refuse(self, *words):
        message = self.assert_refused("export", *words)
        self.assertEqual(len(message.splitlines()), 1, message)
        return message

    def test_what_is_wrong_is_reported_in_one_line_and_leaves_no_file(self):
        (self.folder / "mine.pt").write_text("years of work")
        self.assertIn("mine.pt exists already", self.refuse("run", "--out", "mine.pt"))
        self.assertEqual((self.folder / "mine.pt").read_text(), "years of work")
        self.ddprun("export", "run", "--force", "--out", "mine.pt")
        self.assert_same(torch.load(self.folder / "mine.pt", weights_only=True), "last")
        self.assertIn("nowhere: No such file", self.refuse("nowhere", "--out", "a.pt"))
        self.assertIn("home is not a run folder", self.refuse("home", "--out", "a.pt"))
        self.assertIn("has no checkpoint step_5; it has: best, last, step_00000010, step_00000020",
                      self.refuse("run", "step_5", "--out", "a.pt"))
        self.assertIn("add --format", self.refuse("run", "--out", "a"))
        self.assertIn("there is no folder", self.refuse("run", "--out", "deep/a.pt"))
        self.assertIn("--format", self.refuse("run", "--out", "a.pt", "--format", "tflite"))
        self.assertIn("model.hidden=9: export takes no settings", self.refuse("run", "model.hidden=9", "--out", "a.pt"))
        file = self.run_folder / "checkpoints/last/model.safetensors"
        content = bytearray(file.read_bytes())
        content[-5] ^= 1
        file.write_bytes(content)
        self.assertIn("model.safetensors: its SHA-256 is", self.refuse("run", "--out", "a.pt"))
        self.assertEqual([path.name for path in self.folder.glob("a*")], [])

    def test_the_averaged_weights_are_exported_where_the_run_has_them(self):
        self.ddprun(*SMALL, "model=mlp", "trainer.ema_decay=0.9", "run.dir=averaged")
        self.ddprun("export", "averaged", "--out", "m.pt")
        folder = self.folder / "averaged/checkpoints/last"
        average, raw = (weights.load(folder / name) for name in ("ema.safetensors", "model.safetensors"))
        found = torch.load(self.folder / "m.pt", weights_only=True)
        self.assertTrue(all(torch.equal(found[name], value) for name, value in average.items()))
        self.assertFalse(all(torch.equal(found[name], raw[name]) for name in average))


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Checkpoints without the weights that never train (checkpoint.only_trainable): small ones, which who reads a checkpoint reads as
those of the whole model; and the base below them is the run's, or refused."""

import json
import shutil
import unittest

import torch

import weights
from command import SMALL, CommandTest, checkpoint_steps, differences, is_whole

FROZEN = ("layer1.0.weight", "layer1.0.bias", "layer1.1.weight", "layer1.1.bias", "layer2.0.weight", "layer2.0.bias")
# BatchNorm of the second layer trains, so its statistics and those of the first one, whose layer is frozen, are there.
WORDS = [*SMALL, "model=convnet_bn", "trainer.max_epochs=3", "checkpoint.every=5st", "checkpoint.keep=9",
         "pretrained={file: base.safetensors, freeze: [layer1.*, layer2.0.*]}"]
ON = "checkpoint.only_trainable=true"
NO_BASE = "leaves out 6 parameters that never train (checkpoint.only_trainable), and this model has other weights there: their digest is "


class OnlyTrainable(CommandTest):
    def setUp(self):
        super().setUp()
        first = self.undisturbed(*SMALL, "model=convnet_bn", "trainer.max_epochs=1", "seed=5")
        self.base = first / "checkpoints/last/model.safetensors"
        shutil.copy(self.base, self.folder / "base.safetensors")

    def held(self, run, checkpoint="last", file="model"):
        return weights.load(self.folder / run / "checkpoints" / checkpoint / f"{file}.safetensors")

    def exported(self, run, *words):
        out = self.folder / "exported.safetensors"
        self.ddprun("export", run, *words, "--force", "--out", out)
        return weights.load(out)

    def assert_same(self, found, expected):
        self.assertEqual(found.keys(), expected.keys())
        for name, value in expected.items():
            self.assertEqual(found[name].dtype, value.dtype, name)
            self.assertTrue(torch.equal(found[name], value), name)

    def predictions(self, run, *words):
        out = self.folder / f"{run}.csv"
        out.unlink(missing_ok=True)
        self.ddprun("predict", run, *words, "--out", out)
        return out.read_text()

    def swap_base(self):
        """Puts other numbers where the base was; returns how to undo it."""
        file = self.folder / "base.safetensors"
        tensors = weights.load(file)
        tensors["layer2.0.bias"][3] += 1e-3
        weights.save(file, tensors)
        return lambda: shutil.copy(self.base, file)

    def assert_refused_for_its_base(self, *words):
        running = self.start(*words)
        self.assertNotEqual(running.wait(), 0)
        self.assertEqual(running.err().count(NO_BASE), 1, running.err())
        self.assertIn(", the checkpoint's manifest says ", running.err())
        return running.err()

    # The same, but for the size

    def test_who_reads_a_checkpoint_gets_the_whole_network(self):
        for run, words in (("part", [ON]), ("whole", [])):
            running = self.ddprun(*WORDS, *words, "trainer.ema_decay=0.9", "launch.workers=2", f"run.dir={run}")
            said = ("checkpoint.only_trainable: checkpoints leave out 6 of 10 parameters, " in running.err())
            self.assertEqual(said, run == "part", running.err())
        self.assertRegex(self.ddprun("check", *WORDS, ON).out(), r"leave out 6 of 10 parameters, [0-9.]+ % of the weights \([0-9.]+ MB\)")
        self.assertEqual(differences(self.folder / "part", self.folder / "whole"), {})
        part, whole = self.held("part"), self.held("whole")
        self.assertEqual(part.keys(), whole.keys() - set(FROZEN))
        self.assertTrue({"layer1.1.running_mean", "layer2.1.running_var"} <= part.keys())
        self.assert_same(part, {name: whole[name] for name in part})
        sizes = [(self.folder / run / "checkpoints/last/model.safetensors").stat().st_size for run in ("part", "whole")]
        self.assertLess(sizes[0], sizes[1] - sum(whole[name].nbytes for name in FROZEN))
        for words in ([], ["best"], ["step_00000005"]):
            self.assert_same(self.exported("part", *words), self.exported("whole", *words))
        for name in ("m.pt", "m.ts"):
            for run in ("part", "whole"):
                self.ddprun("export", run, "--out", f"{run}_{name}")
        self.assert_same(*(torch.load(self.folder / f"{run}_m.pt", weights_only=True) for run in ("part", "whole")))
        images = torch.rand(3, 1, 28, 28)
        self.assertTrue(torch.equal(*(torch.jit.load(self.folder / f"{run}_m.ts")(images) for run in ("part", "whole"))))
        self.assertEqual(self.predictions("part", "best"), self.predictions("whole", "best"))
        measured = [json.loads(self.ddprun("evaluate", run, "--json", "launch.workers=2").out()) for run in ("part", "whole")]
        self.assertEqual(*(one["metrics"] for one in measured))
        found = json.loads(self.ddprun("verify", "part", "--json").out())["checkpoints"][-1]
        self.assertEqual(found["left_out"], {"parameters": 6, "bytes": sum(whole[name].nbytes for name in FROZEN)})
        self.assertIn(", without 6 parameters that never train (", self.ddprun("verify", "part").out())
        self.assertTrue(all(is_whole(path) for path in (self.folder / "part/checkpoints").glob("step_*")))
        self.adapter_alone()
        self.ddprun("replay", "part", "--step", "12")

    def adapter_alone(self):
        alone = self.exported("part", "--only-trainable")
        self.assertEqual(alone.keys(), self.held("part").keys())
        self.assert_same(alone | {name: self.held("whole")[name] for name in FROZEN}, self.exported("whole"))
        self.assertIn("has all weights, and does not say which of them train",
                      self.ddprun("export", "whole", "--only-trainable", "--out", "a.pt", code=2).err())
        self.assertIn("--only-trainable is for files of weights",
                      self.ddprun("export", "part", "--only-trainable", "--out", "a.ts", code=2).err())

    # The base

    def test_weights_of_the_seed_are_made_again(self):
        words = [*SMALL, "model=convnet_bn", "pretrained={freeze: [layer1.*, layer2.0.*]}"]
        for run, more in (("part", [ON]), ("whole", [])):
            self.ddprun(*words, *more, f"run.dir={run}")
        self.assert_same(self.exported("part"), self.exported("whole"))
        self.assertEqual(self.predictions("part"), self.predictions("whole"))
        self.assert_refused_for_its_base("evaluate", "part", "seed=9")
        self.assert_refused_for_its_base(*words, "pretrained.file=base.safetensors", "checkpoint.resume=part", "trainer.max_epochs=3",
                                         "run.dir=other")

    def test_another_base_is_refused_and_the_right_one_may_lie_elsewhere(self):
        self.ddprun(*WORDS, ON, "trainer.max_steps=8", "run.dir=run")
        expected, predicted = self.exported("run"), self.predictions("run")
        undo = self.swap_base()
        resume = ("resume", "run", "trainer.max_steps=12")
        path = f"{self.folder}/run/checkpoints/step_00000008"
        for words in (resume, ("predict", "run", "--out", "p.csv"), ("evaluate", "run"), ("export", "run", "--out", "m.pt"),
                      ("export", "run", "--out", "m.ts")):
            self.assertIn(path, self.assert_refused_for_its_base(*words))
        self.assertFalse(any((self.folder / name).exists() for name in ("p.csv", "m.pt", "m.ts")))
        self.assertEqual(checkpoint_steps(self.folder / "run"), [5, 8])
        undo()
        self.assert_same(self.exported("run"), expected)
        (self.folder / "base.safetensors").rename(self.folder / "moved.safetensors")
        reported = self.start(*resume)
        self.assertNotEqual(reported.wait(), 0)
        self.assertIn("base.safetensors: no such file or folder; the run needs it to resume, since ", reported.err())
        self.assertEqual(self.predictions("run", "pretrained.file=moved.safetensors"), predicted)
        self.ddprun(*resume, "pretrained.file=moved.safetensors")
        self.ddprun(*WORDS, "trainer.max_steps=12", "pretrained.file=moved.safetensors", "run.dir=whole")
        self.assert_same(self.exported("run"), self.exported("whole"))
        self.ddprun("resume", "run", "trainer.max_steps=16", "pretrained.file=moved.safetensors", "pretrained.freeze=[layer1.*]")
        self.assertEqual(self.held("run").keys(), self.held("whole").keys() - set(FROZEN[:4]), "what it froze trains now, from the same numbers")

    def test_a_new_run_begins_from_it_as_from_a_whole_one(self):
        for run, words in (("part", [ON]), ("whole", [])):
            self.ddprun(*WORDS, *words, "trainer.max_steps=8", f"run.dir={run}")
            self.ddprun(*SMALL, "model=convnet_bn", f"pretrained.file={run}", "trainer.max_epochs=1", f"run.dir=after_{run}")
        self.assert_same(self.held("after_part"), self.held("after_whole"))
        self.ddprun(*WORDS, "pretrained.file=part", ON, "trainer.max_steps=8", "run.dir=again")  # left out twice
        self.ddprun(*WORDS, "pretrained.file=whole", "trainer.max_steps=8", "run.dir=whole_again")
        self.assert_same(self.exported("again"), self.exported("whole_again"))
        shutil.copytree(self.folder / "part/checkpoints/step_00000008", self.folder / "alone")
        self.assertIn("alone holds only what trains (checkpoint.only_trainable), and the experiment that makes the rest is in its run",
                      self.ddprun(*WORDS, "pretrained.file=alone", "run.dir=none", code=2).err())


if __name__ == "__main__":
    unittest.main()

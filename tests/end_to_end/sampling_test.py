# SPDX-License-Identifier: MIT
"""Data with one class in ten times as many samples as the others: what trainer.sampling draws, at any number of workers and across resumes."""

import unittest

import safetensors.torch
import torch

from command import CommandTest, all_rows, differences

COUNTS, FEATURES = (300, 30, 30), 8
WORDS = ("trainer.verify_shards=true", "trainer.max_epochs=3", "trainer.log_every=5", "trainer.global_batch=24")


class Sampling(CommandTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(7)
        centres = torch.randn(3, FEATURES)
        for split, counts in (("train", COUNTS), ("val", (100, 100, 100))):
            targets = torch.cat([torch.full((count,), label) for label, count in enumerate(counts)])
            inputs = 0.7 * centres[targets] + torch.randn(len(targets), FEATURES)
            safetensors.torch.save_file({"input": inputs, "target": targets}, self.folder / f"{split}.safetensors")
        (self.folder / "e.yaml").write_text(
            "seed: 3\nmodel: mlp\ndataset: {plugin: tensors, train: train.safetensors, val: val.safetensors}\n"
            "optimizer: {plugin: sgd, lr: 0.05}\nobjective: {name: cross_entropy, metrics: [accuracy, recall]}\n"
            "launch: {device: cpu, threads: 1, workers: 1}\n")

    def last_recall(self, run):
        return [row["recall"] for row in all_rows(self.folder / run) if row["split"] == "val"][-1]

    def test_balance_lifts_the_recall_and_every_world_draws_alike(self):
        self.ddprun("e.yaml", *WORDS, "run.dir=plain")
        for workers in (1, 2, 3):
            self.ddprun("e.yaml", *WORDS, "trainer.sampling={balance: class}", f"launch.workers={workers}", f"run.dir=run{workers}")
        recalls = [self.last_recall(f"run{workers}") for workers in (1, 2, 3)]
        print(f"macro recall {self.last_recall('plain'):.3f}, balanced {recalls}")
        self.assertGreater(recalls[0], self.last_recall("plain") + 0.1)
        self.assertLess(max(recalls) - min(recalls), 0.01)
        losses = [[row["loss"] for row in all_rows(self.folder / f"run{workers}") if row["split"] == "train"] for workers in (1, 2, 3)]
        for one, other in zip(losses[0], losses[2], strict=True):
            self.assertAlmostEqual(one, other, places=5)

    def test_a_killed_run_goes_on_in_the_same_draws(self):
        weights = [1 / COUNTS[label] for label, count in enumerate(COUNTS) for _ in range(count)]
        (self.folder / "weights.txt").write_text("".join(f"{weight:.18e}\n" for weight in weights))
        words = ("e.yaml", *WORDS, "launch.workers=2", "checkpoint.every=4st", "trainer.sampling={weights: weights.txt}")
        self.ddprun(*words, "run.dir=whole")
        running = self.start_held(22, *words, "run.dir=killed")
        self.kill(running)
        self.ddprun("resume", "killed")
        self.assertEqual(differences(self.folder / "killed", self.folder / "whole"), {})

    def test_what_cannot_be_drawn_is_told_in_one_line(self):
        (self.folder / "few.txt").write_text("1\n2\n")
        (self.folder / "odd.txt").write_text("1\n" * 359 + "-1\n")
        (self.folder / "none.txt").write_text("0\n" * 360)
        (self.folder / "text.txt").write_text("1\nx\n")
        for words, said in ((("trainer.sampling={balance: classes}",), "trainer.sampling: balance: expected class"),
                            (("trainer.sampling={weight: a.txt}",), "expected {balance: class} or {weights: FILE}"),
                            (("trainer.sampling={balance: class}", "trainer.shuffle=false"), "cannot be combined with shuffle: false"),
                            (("trainer.sampling={weights: few.txt}",), "few.txt: it has 2 weights, and train 360 samples"),
                            (("trainer.sampling={weights: odd.txt}",), "odd.txt: the weight of sample 359 is -1"),
                            (("trainer.sampling={weights: none.txt}",), "none.txt: the sum of the weights is 0"),
                            (("trainer.sampling={weights: text.txt}",), "text.txt:2: expected a number, found \"x\""),
                            (("trainer.sampling={weights: no.txt}",), "no.txt: cannot be opened: No such file"),
                            (("trainer.sampling={balance: class}", "model=transformer", "dataset={plugin: text}", "objective={name: cross_entropy}"),
                             "which this dataset does not know")):
            with self.subTest(said=said):
                error = self.ddprun("check", "e.yaml", *words, code=2).err()
                self.assertIn(said, error)
                self.assertEqual(len(error.splitlines()), 1, error)
        targets = [0, 2] * 10
        safetensors.torch.save_file({"input": torch.randn(20, FEATURES), "target": torch.tensor(targets)}, self.folder / "gap.safetensors")
        error = self.ddprun("check", "e.yaml", "dataset.train=gap.safetensors", "trainer.sampling={balance: class}", code=2).err()
        self.assertIn("balance: class cannot draw from the class 1, which has no training sample", error)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Samples of several tensors: texts with a mask that says which symbols count, and a model that is given both."""

import csv
import unittest

import torch

import weights
from command import DDPRUN, CommandTest, results, summary

PLUGINS = DDPRUN.parents[1] / "tests/several_inputs"
EXPERIMENT = f"""
name: texts
plugin_path: {PLUGINS}
model: {{plugin: bag, symbols: 60}}
dataset: {{plugin: tensors, train: 7.safetensors, val_fraction: 0.25, symbols: true, extras: [mask]}}
optimizer: {{plugin: adam, lr: 0.05}}
trainer: {{max_epochs: 5, global_batch: 48, micro_batch: 20, log_every: 1}}
launch: {{threads: 1, device: cpu}}
"""


def texts(hidden):
    """200 of 9 symbols each, whose class is in the symbols that the mask leaves; the others are `hidden`."""
    draws = torch.Generator().manual_seed(3)
    target = torch.randint(3, (200,), generator=draws)
    symbols = 20 * target[:, None] + torch.randint(20, (200, 9), generator=draws)
    mask = torch.arange(9) < torch.randint(1, 9, (200, 1), generator=draws)
    return {"input": torch.where(mask, symbols, hidden), "target": target, "mask": mask}


class Extras(CommandTest):
    def setUp(self):
        super().setUp()
        (self.folder / "texts.yaml").write_text(EXPERIMENT)
        for hidden in (7, 55):
            weights.save(self.folder / f"{hidden}.safetensors", texts(hidden))

    def train(self, name, *words):
        self.ddprun("texts.yaml", f"run.dir={name}", *words)
        return self.folder / name

    def assert_same_losses(self, run, other, delta):
        for key, row in results(other).items():
            self.assertAlmostEqual(results(run)[key]["loss"], row["loss"], delta=delta, msg=f"{run.name}: {key}")

    def test_one_two_and_three_workers_train_the_same_with_a_mask(self):
        alone = self.train("alone", "launch.workers=1")
        self.assertGreater(summary(alone)["metrics"]["val/accuracy"], 0.95)
        for workers in (2, 3):
            self.assert_same_losses(self.train(f"run{workers}", f"launch.workers={workers}"), alone, 1e-4)
        # What the masks hide may be anything, as long as each stays with its sample.
        self.assert_same_losses(self.train("hidden", "launch.workers=1", "dataset.train=55.safetensors"), alone, 1e-6)

        self.ddprun("predict", alone, "--split", "val", "--out", "p.csv")
        with open(self.folder / "p.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        right = sum(row["guess"] == row["truth"] for row in rows)
        self.assertEqual(len(rows), 50)
        self.assertAlmostEqual(right / 50, summary(alone)["metrics"]["val/accuracy"], places=4)

    def test_data_and_check_know_the_mask(self):
        text = self.ddprun("data", "texts.yaml").out()
        self.assertIn("samples of 9 int64 with mask of 9 bool, 3 classes", text)
        self.assertRegex(text, r"\n  mask +0 +1 +0\.\d+ +0\.\d+\n")
        self.ddprun("check", "texts.yaml")
        text = self.ddprun("check", "texts.yaml", "~dataset.extras", code=2).err()
        self.assertIn('the model asks for the extra "mask" of a batch; the dataset gives none', text)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()

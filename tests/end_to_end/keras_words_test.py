# SPDX-License-Identifier: MIT
"""What docs/from_pytorch.md gives for the words of Keras' fit() does what Keras does."""

import csv
import json
import unittest

import torch

import weights
from command import CommandTest

SAMPLES, BATCH = 100, 20
FIT = ["experiments/mnist_keras.yaml", "dataset={plugin: tensors, train: data.safetensors, classes: 3}", "dataset.val_fraction=0.2",
       "model={plugin: mlp, hidden: 8}", "~trainer.batch_per_worker", f"+trainer.global_batch={BATCH}", "trainer.max_epochs=3", "launch.threads=1",
       "launch.device=cpu", "launch.workers=1", "run.dir=run"]


class KerasWords(CommandTest):
    def setUp(self):
        super().setUp()
        generator = torch.Generator().manual_seed(1)
        weights.save(self.folder / "data.safetensors", {"input": torch.randn(SAMPLES, 8, generator=generator),
                                                        "target": torch.randint(0, 3, (SAMPLES,), generator=generator)})

    def summary(self):
        return json.loads((self.folder / "run/summary.json").read_text())

    def rows(self):
        with (self.folder / "run/metrics.csv").open() as file:
            return list(csv.DictReader(file))

    def test_fit_evaluate_and_predict(self):
        """fit(epochs, batch_size, validation_split), ModelCheckpoint, CSVLogger, BackupAndRestore, evaluate(), predict()."""
        words = [*FIT, "loggers=[console, csv]", "objective.metrics=[accuracy]", "checkpoint.monitor=val/loss", "checkpoint.resume=auto"]
        first = self.ddprun(*words).text()
        self.assertIn("80 train, 20 val", first)
        self.assertEqual(self.summary()["steps"], 3 * 80 // BATCH)
        self.assertEqual([row["epoch"] for row in self.rows() if row["split"] == "val"], ["1", "2", "3"])
        self.assertTrue((self.folder / "run/checkpoints/best").exists())
        again = self.ddprun(*words).text()
        self.assertIn("the run has ended its training after 12 steps", again)
        self.assertEqual(set(json.loads(self.ddprun("evaluate", "run", "best", "--json").out())["metrics"]) & {"val/loss", "val/accuracy"},
                         {"val/loss", "val/accuracy"})
        self.ddprun("predict", "run", "best", "--split", "val", "--out", "p.csv")
        self.assertEqual(len((self.folder / "p.csv").read_text().splitlines()), 1 + 20)

    def test_early_stopping_and_reduce_lr_on_plateau(self):
        self.ddprun(*FIT, "trainer.max_epochs=9", "loggers=[csv]", "early_stopping={monitor: val/loss, patience: 3, min_delta: 100}",
                    "schedule={name: plateau, monitor: val/loss, factor: 0.1, patience: 0, threshold: 100, min_lr: 2e-5}")
        self.assertEqual((self.summary()["status"], self.summary()["steps"]), ("stopped_early", 4 * 80 // BATCH))
        rates = [float(row["lr"]) for row in self.rows() if row["lr"]]
        self.assertEqual((max(rates), min(rates)), (1e-3, 2e-5))


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""A sample that holds NaN, seen by one of two workers: the command stops, skips it, or goes back and past it."""

import json
import unittest

import numpy

from command import CommandTest, all_rows, checkpoint_steps, events, summary

BATCH, STEPS = 16, 10
BAD = 5 * BATCH + 13  # in the sixth step, on rank 1
FILE = "nonfinite/step_00000006.json"


class Nonfinite(CommandTest):
    def setUp(self):
        super().setUp()
        draws = numpy.random.default_rng(7)
        labels = draws.integers(0, 3, STEPS * BATCH + 60)
        inputs = draws.normal(size=(labels.size, 8)).astype("float32") + labels[:, None].astype("float32")
        train = slice(0, STEPS * BATCH)
        self.save("val", inputs[train.stop:], labels[train.stop:])
        self.save("good", inputs[train], labels[train])
        gap = numpy.r_[0:5 * BATCH, 6 * BATCH:STEPS * BATCH]
        self.save("gapped", inputs[gap], labels[gap])
        inputs[BAD, 3] = numpy.nan
        self.save("bad", inputs[train], labels[train])
        (self.folder / "nan.yaml").write_text(f"""
name: nan
seed: 1
model: {{plugin: mlp, hidden: 16}}
dataset: {{plugin: tensors, train: [bad_x.npy, bad_y.npy], val: [val_x.npy, val_y.npy]}}
optimizer: {{plugin: sgd, lr: 0.05, momentum: 0.9}}
loggers: [jsonl]
trainer: {{max_epochs: 1, global_batch: {BATCH}, shuffle: false, log_every: 2, ema_decay: 0.9}}
checkpoint: {{every: 2st, keep: 9}}
launch: {{workers: 2, device: cpu, threads: 1}}
""")

    def save(self, name, inputs, labels):
        numpy.save(self.folder / f"{name}_x.npy", inputs)
        numpy.save(self.folder / f"{name}_y.npy", labels)

    def assert_same(self, run, other):
        self.assert_same_files(self.folder / run, self.folder / other, ("model", "ema"))

    def test_stop_names_all_and_keeps_the_checkpoint_before(self):
        message = self.ddprun("nan.yaml", "run.dir=run", code=1).err()
        for words in ("step 6: the training loss is not finite: nan on rank 1, 0.", " on rank 0. Lower the learning rate",
                      f"run/{FILE}", "trainer.on_nonfinite=skip"):
            self.assertIn(words, message)
        for words in ("internal", "terminate called", "frame #"):
            self.assertNotIn(words, message)
        self.assertEqual(checkpoint_steps(self.folder / "run"), [2, 4])
        self.assertEqual(summary(self.folder / "run")["status"], "failed")
        found = json.loads((self.folder / "run" / FILE).read_text())
        self.assertEqual((found["step"], found["epoch"], found["cause"]), (6, 1, "loss"))
        self.assertEqual([part["samples"] for part in found["ranks"]], [list(range(80, 88)), list(range(88, 96))])
        self.assertEqual((found["ranks"][1]["loss"], found["ranks"][1]["nonfinite"]), (None, "nan"))
        self.assert_nothing_left()
        self.ddprun("verify", "run")

        self.ddprun("resume", "run", "trainer.on_nonfinite=skip")
        self.train("whole", "nan.yaml", "trainer.on_nonfinite=skip")
        self.assert_same("run", "whole")

    def test_skip_and_rollback_end_as_without_the_batch(self):
        self.train("gapped", "nan.yaml", "dataset.train=[gapped_x.npy, gapped_y.npy]")
        for action in ("skip", "rollback"):
            running = self.ddprun("nan.yaml", f"run.dir={action}", f"trainer.on_nonfinite={action}", "launch.max_restarts=0")
            self.assertIn("step 6: the training loss is not finite: nan on rank 1", running.err())
            self.assert_same(action, "gapped")
            self.assertEqual(json.loads((self.folder / action / FILE).read_text())["on_nonfinite"], action)
            rows = all_rows(self.folder / action)
            self.assertEqual([row["skipped_steps"] for row in rows if row["split"] == "train" and row["step"] == STEPS], [1])
            self.assertFalse(any("nonfinite" in row for row in rows))
        self.assertIn(f"; rolling back to step 4, to skip that batch; it is in {self.folder}/rollback/{FILE}", running.err())
        found = [(event["kind"], event["attempt"]) for event in events(self.folder / "rollback") if event["kind"] in ("rollback", "resumed", "failure")]
        self.assertEqual(found, [("rollback", 0), ("resumed", 1)], "an attempt more, and no restart")
        self.assertEqual(summary(self.folder / "rollback")["status"], "completed")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""ddprun -m: one run for each combination of values."""

import signal
import statistics
import struct
import unittest

from command import SMALL, CommandTest, summary
from init_test import npy

QUICK = ["model=mlp", "trainer.max_epochs=1", "launch.workers=1"]


class Multirun(CommandTest):
    def test_each_combination_is_a_run(self):
        words = [word for word in SMALL if word != "experiments/digits.yaml"]
        running = self.ddprun("-m", "optimizer.lr=0.1,0.01", *words, *QUICK, "model.layers=0,1", "experiments/digits.yaml")
        folder = next((self.folder / "outputs/digits").glob("multirun_*"))
        configs = [(folder / str(run) / "config.yaml").read_text() for run in range(4)]
        for config, lr, layers in zip(configs, ("0.1", "0.1", "0.01", "0.01"), ("0", "1", "0", "1")):
            self.assertRegex(config, rf"(?m)^  lr: {lr} ")
            self.assertRegex(config, rf"(?m)^  layers: {layers} ")
        self.assertIn("run 3 of 4: optimizer.lr=0.01 model.layers=0\n", running.err())
        table = running.out().splitlines()[-4:]
        best = [summary(folder / line.split()[0])["best"]["val/accuracy"] for line in table]
        self.assertEqual(best, sorted(best, reverse=True))
        self.assertEqual({line.partition("  lr=")[2] for line in table}, {"0.01 layers=1", "0.01 layers=0", "0.1 layers=1", "0.1 layers=0"})

    def test_all_of_them_are_checked_before_the_first(self):
        error = self.assert_refused("-m", *SMALL, "optimizer.lr=0.1,fast")
        self.assertIn('optimizer.lr: expected float, found "fast"', error)
        self.assertIn("a value is missing", self.assert_refused("-m", *SMALL, "optimizer.lr=0.1,"))
        self.assertIn("tools/sweep", self.assert_refused("-m", "--nnodes=2", *SMALL, "optimizer.lr=0.1,0.2"))

    def test_one_that_fails_does_not_keep_the_others_from_running(self):
        running = self.ddprun("-m", *SMALL, *QUICK, "optimizer.lr=0.1,0.01", "run.dir=all", code=1, env={"DDPRUN_FAULT": "kill:computing:5"})
        self.assertEqual([summary(self.folder / f"all/{run}")["status"] for run in (0, 1)], ["failed", "failed"], running.text())

    def test_what_is_stopped_starts_no_more_and_the_same_command_continues(self):
        sweep = ("-m", *SMALL, *QUICK, "optimizer.lr=0.1,0.01", "run.dir=all")
        running = self.start_held(5, *sweep)
        running.send(signal.SIGTERM)
        self.assertEqual(running.wait(), 75, running.text())
        self.assertEqual(summary(self.folder / "all/0")["status"], "preempted")
        self.assertFalse((self.folder / "all/1").exists())
        self.assertRegex(running.err(), r"the sweep is stopped; 1 more not started; resume with: \S+ -m .* run.dir=all\n")
        self.assert_nothing_left()
        self.assertIn("already exists and is not the folder of this sweep", self.assert_refused(*sweep, "seed=7"))
        going_on = self.ddprun(*sweep)
        self.assertIn("resumed at step", going_on.out())
        self.assertEqual([summary(self.folder / f"all/{run}")["status"] for run in (0, 1)], ["completed", "completed"])

    def test_folds_end_with_their_mean_and_spread(self):
        (self.folder / "x.npy").write_bytes(npy("<f4", (90, 3), struct.pack("<270f", *(row % 3 == i for row in range(90) for i in range(3)))))
        (self.folder / "y.npy").write_bytes(npy("<i8", (90,), struct.pack("<90q", *((row + row // 30 % 2) % 3 for row in range(90)))))
        (self.folder / "e.yaml").write_text("model: mlp\ndataset: {plugin: tensors, train: [x.npy, y.npy], folds: 3}\n"
                                            "optimizer: {plugin: sgd, lr: 0.1}\nlaunch: {device: cpu, threads: 1, workers: 1}\n")
        lines = self.ddprun("-m", "e.yaml", "trainer.max_epochs=2", "trainer.global_batch=6", "dataset.fold=0..2", "run.dir=all").out().splitlines()
        values = [summary(self.folder / f"all/{run}")["best"]["val/accuracy"] for run in range(3)]
        self.assertEqual(lines[-1], f"val/accuracy {statistics.mean(values):.4g} +- {statistics.stdev(values):.2g}: mean and standard deviation of 3 folds")
        self.assertIn("dataset.fold: expected 0 to 2", self.assert_refused("e.yaml", "dataset.fold=3"))


if __name__ == "__main__":
    unittest.main()

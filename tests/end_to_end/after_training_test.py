# SPDX-License-Identifier: MIT
"""A trained run measured again, and its predictions: the same at any number of workers, and nothing of the run is touched."""

import json
import os
import pathlib
import re
import shutil
import signal
import unittest

from command import SMALL, CommandTest, csv_rows, flip_a_bit, summary

CLASSES = [str(digit) for digit in range(10)]


def is_pending(pid, number):
    """Sent to the process, which is stopped, and not taken yet."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"ShdPnd:\s*(\w+)", status)[1], 16) >> (number - 1) & 1


class AfterTraining(CommandTest):
    """Each test has a copy of the one run."""

    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"
        trained = self.undisturbed(*SMALL, "model=convnet_bn", "optimizer.lr=0.005", "launch.workers=2", "dataset.val_size=149",
                                   "objective={name: cross_entropy, metrics: [accuracy, confusion]}")
        shutil.copytree(trained, self.run_folder, symlinks=True)
        self.trained = summary(self.run_folder)
        self.assertTrue(30 < self.trained["test_correct"] < 301, "no good measure of sameness")
        self.before = self.all_files()

    def all_files(self):
        return {path: path.read_bytes() for path in self.run_folder.rglob("*") if path.is_file()}

    def refuse(self, *words):
        message = self.assert_refused(*words)
        self.assertEqual(len(message.splitlines()), 1, message)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        return message

    def test_an_evaluation_gives_the_runs_own_numbers_at_any_number_of_workers(self):
        for workers in (1, 2, 3):
            with self.subTest(workers=workers):
                running = self.ddprun("evaluate", "run", "--json", f"launch.workers={workers}")
                found = json.loads(running.out())
                self.assertEqual((found["step"], found["world_size"]), (20, workers))
                self.assertEqual((found["test_correct"], found["test_total"]), (self.trained["test_correct"], 301))
                for name in ("val/accuracy", "val/loss", "test/accuracy", "test/loss"):
                    self.assertAlmostEqual(found["metrics"][name], self.trained["metrics"][name], places=5)
                counts = found["confusion"]["test"]["counts"]
                self.assertEqual(sum(map(sum, counts)), 301)
                self.assertEqual(sum(counts[i][i] for i in range(10)), self.trained["test_correct"])
                self.assertEqual((found["last"], found["weights"]), (True, "model"))
        text = self.ddprun("evaluate", "run").out()
        self.assertRegex(text, r"step_00000020: epoch 2, the (best and the )?last")
        self.assertIn(f"{self.trained['test_correct']} of 301 correct (", text)
        self.assertEqual(self.all_files(), self.before)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def test_predictions_are_the_same_file_at_any_number_of_workers(self):
        for workers in (1, 2, 3):
            said = self.ddprun("predict", "run", "--out", f"p{workers}.csv", f"launch.workers={workers}").out()
            self.assertIn(f"301 samples of split test, {self.trained['test_correct']} of 301 correct (", said)
        rows = csv_rows(self.folder / "p1.csv")
        self.assertEqual([row["index"] for row in rows], [str(i) for i in range(301)])
        self.assertEqual(list(rows[0]), ["index", "truth", "guess", *(f"score_{name}" for name in CLASSES)])
        self.assertEqual(sum(row["truth"] == row["guess"] for row in rows), self.trained["test_correct"])
        for row in rows:
            scores = [float(row[f"score_{name}"]) for name in CLASSES]
            self.assertAlmostEqual(sum(scores), 1, places=5)
            self.assertEqual(scores[int(row["guess"])], max(scores))
        for other in ("p2.csv", "p3.csv"):
            self.assertEqual((self.folder / other).read_bytes(), (self.folder / "p1.csv").read_bytes())
        self.assertEqual(self.all_files(), self.before)

    def test_another_split_and_checkpoint_can_be_chosen(self):
        running = self.ddprun("predict", "run", "step_00000010", "--split", "val", "--out", "val.csv", "launch.workers=3", "trainer.limit_val_batches=1")
        self.assertIn("trainer.limit_val_batches=1: has no effect: predict takes each sample of the split", running.err())
        rows = csv_rows(self.folder / "val.csv")
        self.assertEqual([row["index"] for row in rows], [str(i) for i in range(149)])
        found = json.loads(self.ddprun("evaluate", "run", "step_00000010", "--json").out())
        self.assertEqual(sum(row["truth"] == row["guess"] for row in rows), found["val_correct"])
        self.assertEqual((found["step"], found["last"]), (10, False))
        text = self.ddprun("evaluate", "run", "step_00000010").out()
        self.assertRegex(text, r"step_00000010: epoch 1.*; .*the last is step_00000020: add `last`")

    def test_the_run_may_be_changed_by_overrides(self):
        running = self.ddprun("evaluate", "run", "dataset.test_size=50", "trainer.ema_decay=0.9", "trainer.eval_batch=7", "--json")
        self.assertEqual(json.loads(running.out())["test_total"], 50)
        self.assertIn("trainer.ema_decay=0.9: has no effect: only training reads trainer.ema_decay", running.err())
        self.assertNotIn("eval_batch", running.err())

    def test_what_is_wrong_is_reported_in_one_line(self):
        (self.folder / "mine.csv").write_text("years of work")
        self.assertIn("mine.csv exists already", self.refuse("predict", "run", "--out", "mine.csv"))
        self.assertEqual((self.folder / "mine.csv").read_text(), "years of work")
        (self.folder / "newpics").mkdir()
        for pictures in ("newpics", self.folder / "newpics"):
            message = self.refuse("predict", "run", pictures, "--out", "a.csv")
            self.assertIn(f"{pictures} is not a checkpoint: it has no manifest.json; ", message)
            self.assertIn("predict other files with --input, or use dataset.root=", message)
        (self.folder / "newpics").rmdir()
        for words, said in ((("evaluate", "nowhere"), "nowhere: No such file"), (("evaluate", "run", "step_5"), "has no checkpoint step_5; it has: "),
                            (("predict", "run", "--split", "tset", "--out", "a.csv"), "--split"),
                            (("predict", "run"), "predict: where to? --out FILE.csv writes a line for each sample, --html "),
                            (("evaluate", "run", "trainer.global_bach=3"), "trainer.global_bach: unknown key")):
            self.assertIn(said, self.refuse(*words))
        self.assertEqual(self.all_files(), self.before)
        flip_a_bit(self.run_folder / "checkpoints/last/model.safetensors")
        self.assertIn("model.safetensors: its SHA-256 is", self.refuse("evaluate", "run"))
        self.ddprun("evaluate", "run", "step_00000010")

    def test_what_a_worker_finds_wrong_is_reported_without_its_log(self):
        for words, expected in {("evaluate", "run", "model.plugin=mlp"): "does not fit the model",
                                ("predict", "run", "--split=val", "--out=a.csv", "dataset.val_size=0"):
                                    "--split val: the dataset has no such split"}.items():
            message = self.assert_refused(*words)
            self.assertIn(expected, message)
            self.assertNotIn("log: ", message)
        self.assertEqual([path.name for path in self.folder.glob("a.csv*")], [])
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def test_ctrl_c_ends_it_at_once_and_leaves_nothing(self):
        running = self.start("predict", "run", "--out", "a.csv", "launch.workers=2", "dataset.test_size=300000")  # not over before it is stopped
        self.wait_until(lambda: len(self.workers()) == 2, "both workers", running)
        workers = self.stop_workers(running)  # so that they do not end by themselves
        running.send(signal.SIGINT)
        self.wait_until(lambda: all(is_pending(pid, signal.SIGTERM) for pid in workers), "the launcher to end them", running)
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(running.wait(), 128 + signal.SIGINT, running.text())
        self.assertIn("stopped; nothing is written", running.err())
        self.assertNotIn("checkpoint", running.err())
        self.assertEqual([path.name for path in self.folder.glob("a.csv*")], [])
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        self.assert_nothing_left()

    def test_averaged_weights_are_measured_as_the_run_measured_them(self):
        self.ddprun(*SMALL, "model=mlp", "trainer.ema_decay=0.9", "run.dir=averaged")
        trained = summary(self.folder / "averaged")
        found = json.loads(self.ddprun("evaluate", "averaged", "--json").out())
        self.assertEqual(found["test_correct"], trained["test_correct"])
        self.assertEqual((found["weights"], trained["weights"]), ("ema", "ema"))
        self.assertAlmostEqual(found["metrics"]["test/loss"], trained["metrics"]["test/loss"], places=5)

    def test_a_run_tests_its_best_checkpoint_as_evaluate_does(self):
        self.ddprun(*SMALL, "model=mlp", "checkpoint.monitor=val/loss", "checkpoint.mode=max", "run.dir=falling")  # the first one
        trained = summary(self.folder / "falling")
        self.assertLess(trained["best_step"], trained["steps"])
        found = json.loads(self.ddprun("evaluate", "falling", "best", "--json").out())
        self.assertEqual(pathlib.Path(found["checkpoint"]), pathlib.Path(trained["best_checkpoint"]))
        for name in ("test/accuracy", "test/loss"):
            self.assertAlmostEqual(found["metrics"][name], trained["best"][name], places=5)
            self.assertNotEqual(trained["best"][name], trained["metrics"][name])
        (listed,) = json.loads(self.ddprun("list", "falling", "--json").out())
        self.assertEqual((listed["test_of_best"], listed["test_of_last"]), (trained["best"]["test/loss"], trained["metrics"]["test/loss"]))


if __name__ == "__main__":
    unittest.main()

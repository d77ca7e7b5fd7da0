# SPDX-License-Identifier: MIT
"""The Python package on real runs: what it reads is what the program wrote; one that fails or is stopped is reported."""

import datetime
import io
import json
import os
import pathlib
import re
import signal
import sys
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "sdk/python"), str(ROOT / "tests/end_to_end")]

from browser import report_in  # noqa: E402
from command import SMALL, CommandTest, all_rows, checkpoint_steps, summary  # noqa: E402
import torch  # noqa: E402
from safetensors.numpy import load_file as load_numpy  # noqa: E402
from safetensors.torch import load_file as load_torch  # noqa: E402

import ddprun  # noqa: E402

STOPPED = """
import sys
import ddprun
try:
    ddprun.train(*sys.argv[1:], trainer__max_epochs=1_000_000)  # it ends when it is stopped
except ddprun.Interrupted as stop:
    print("INTERRUPTED", stop.run.path, stop.run.status, stop)
"""


class PythonTest(CommandTest):
    def setUp(self):
        super().setUp()
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        changes = unittest.mock.patch.dict(os.environ, self.environment(), clear=True)
        changes.start()
        self.addCleanup(changes.stop)

    def train(self, *words, **settings):
        return self.quietly(ddprun.train, *words, **settings)

    def quietly(self, call, *arguments, **settings):
        with unittest.mock.patch("sys.stdout", io.StringIO()) as output:
            try:
                return call(*arguments, **settings)
            finally:
                self.output = output.getvalue()


class AWholeRun(PythonTest):
    def test_what_it_says_is_what_the_program_wrote(self):
        values = {"predictions": {"num_batches_to_log": 1}, "loggers": ["console", "jsonl"], "model.dropout": 0.25}
        self.run_ = self.train(*SMALL, overrides=values, seed=7)
        self.assertIn("Training Summary", self.output)
        self.assertEqual(self.run_.path, (self.folder / "outputs/digits/latest").resolve())
        self.assertEqual((self.run_.config["model"]["dropout"], self.run_.config["seed"]), (0.25, 7))
        for claim in (self.measured, self.predicted, self.learned, self.exported, self.foreseen, self.listed, self.shown):
            with self.subTest(claim.__name__):
                claim(self.run_)

    def measured(self, run):
        self.assertEqual(run.summary, summary(run.path))
        self.assertEqual(run.status, "completed")
        rows = [row for row in all_rows(run.path) if row["split"] == "val"]
        self.assertEqual(list(run.metrics("val")), rows)
        self.assertEqual(len(run.metrics()), len(all_rows(run.path)))
        self.assertEqual({row["split"] for row in run.metrics("system")}, {"system"})
        steps, values = run.curve("val/loss", x="epoch")
        self.assertEqual((steps, values), ([1, 2], [row["loss"] for row in rows]))
        self.assertEqual(run.history("val/loss"), values)
        accuracies = run.history("val/accuracy")
        self.assertEqual(run.summary["history"], {"step": [10, 20], "val/accuracy": accuracies})
        self.assertEqual(list(run.best.items())[0], ("val/accuracy", max(accuracies)))
        self.assertIn("test/accuracy", run.best)
        with self.assertRaisesRegex(ddprun.UserError, "did you mean val?"):
            run.metrics("vla")

    def predicted(self, run):
        rows = run.predictions()
        self.assertEqual({(row["split"], row["step"]) for row in rows}, {("val", 20)})
        for row in rows:
            self.assertEqual(row["guess"], row["scores"].index(max(row["scores"])))
            self.assertEqual(row["truth_name"], str(row["truth"]))
            self.assertTrue(pathlib.Path(row["image"]).is_file())
        self.assertEqual({row["step"] for row in run.predictions("val", step=10)}, {10})
        with self.assertRaisesRegex(ddprun.UserError, "val at step 10, "):
            run.predictions(step=11)

    def learned(self, run):
        self.assertEqual(list(run.checkpoints()), checkpoint_steps(run.path))
        for which, name in (("best", "best"), ("last", "last"), (10, "step_00000010")):
            file = run.path / "checkpoints" / name / "model.safetensors"
            mine, theirs = run.weights(which), load_torch(file)
            self.assertEqual(mine.keys(), theirs.keys())
            self.assertTrue(all(mine[key].dtype == theirs[key].dtype and mine[key].equal(theirs[key]) for key in theirs))
        with unittest.mock.patch.dict(sys.modules, torch=None):
            mine, theirs = run.weights(10), load_numpy(file)
            self.assertTrue(all((mine[key] == theirs[key]).all() for key in theirs))
            with unittest.mock.patch.dict(sys.modules, numpy=None), self.assertRaisesRegex(ddprun.UserError, "torch or numpy"):
                run.weights()
        with self.assertRaisesRegex(ddprun.UserError, "no checkpoint step 11; there are: step 10, 20"):
            run.weights(11)

    def exported(self, run):
        file = self.quietly(run.export, self.folder / "best.pt", "best")
        self.assertEqual(file, self.folder / "best.pt")
        self.assertIn("best.pt: 8 tensors of step_", self.output)
        mine, theirs = torch.load(file, weights_only=True), run.weights("best")
        self.assertTrue(mine.keys() == theirs.keys() and all(mine[key].equal(theirs[key]) for key in theirs))
        with self.assertRaisesRegex(ddprun.UserError, "best.pt exists already"):
            run.export(file)
        self.quietly(run.export, file, 10, force=True)
        self.assertIn("of step_00000010", self.output)
        with self.assertRaisesRegex(ddprun.UserError, "--raw is for files that hold the network"):
            run.export("new.pt", raw=True)

    def foreseen(self, run):
        rows = self.quietly(run.predict, "val", checkpoint="last", out="p.csv")
        correct = sum(row["truth"] == row["guess"] for row in rows)
        self.assertEqual(correct / len(rows), run.history("val/accuracy")[-1])
        self.assertIn(f"{correct} of 150 correct", self.output)
        self.assertEqual(len((self.folder / "p.csv").read_text().splitlines()), 1 + len(rows))
        with self.assertRaisesRegex(ddprun.UserError, "^--input nowhere.png: matches no file"):
            run.predict(input="nowhere.png")

    def listed(self, run):
        [one] = runs = ddprun.runs()
        self.assertEqual((one.path, runs.labels()), (run.path, [run.name]))
        recorded = json.loads((run.path / "environment.json").read_text())
        self.assertEqual((one.started, one.version), (datetime.datetime.fromisoformat(recorded["time"]), ddprun.__version__))

    def shown(self, run):
        page = run._repr_html_()
        self.assertIn("completed", page.partition("<iframe")[0])
        [recorded] = report_in(page)["runs"]
        self.assertEqual((recorded["path"], recorded["status"]), (str(run.path), "completed"))
        self.assertIn("accuracy", {curve["name"] for curve in recorded["curves"]})
        frame = re.sub(r'srcdoc="[^"]*"', "", page)
        self.assertNotIn("<script", frame)  # what the report runs stays in its frame
        self.assertIn('sandbox="allow-scripts"', frame)


class ARunThatFails(PythonTest):
    def test_its_exit_code_and_last_words_are_reported(self):
        with self.assertRaises(ddprun.Failed) as caught:
            self.train("experiments/digits.yaml", model__hiden=3)
        self.assertEqual((caught.exception.code, caught.exception.run), (2, None))
        self.assertIn("model.hiden: unknown key", str(caught.exception))
        self.assertIn("model.hiden: unknown key", self.output)

    def test_what_it_left_can_be_read(self):
        with self.assertRaises(ddprun.Failed) as caught:
            self.train(*SMALL, optimizer__lr=1e30, loggers=["jsonl"], run__dir="here")
        self.assertEqual(caught.exception.code, 1)
        self.assertEqual(caught.exception.run.path, self.folder / "here")
        self.assertEqual(caught.exception.run.status, "failed")

    def test_a_program_that_is_not_there_is_reported(self):
        with unittest.mock.patch.dict(os.environ, DDPRUN_PROGRAM="nowhere/ddprun"):
            with self.assertRaisesRegex(ddprun.UserError, "DDPRUN_PROGRAM=nowhere/ddprun: there is no such program"):
                ddprun.train("experiments/digits.yaml")


class AnAttemptThatWasRefused(PythonTest):
    def test_leaves_the_run_as_it_was(self):
        done = self.train(*SMALL, trainer__max_steps=1, run__dir="here")
        self.assertIn("model.hidden", self.ddprun("resume", "here", "model.hidden=99", code=2).err())
        self.assertEqual((done.status, done.attempt, done.summary["steps"]), ("completed", 0, 1))


class ARunUnderWay(PythonTest):
    def test_it_can_be_read_and_ctrl_c_lets_it_save(self):
        python = self.start_program(sys.executable, "-B", "-c", STOPPED, *SMALL, env=dict(os.environ) | {"PYTHONPATH": ROOT / "sdk/python"})
        folder = self.folder / "outputs/digits/latest"
        self.wait_for_step(python, folder, 2)
        run = ddprun.run(folder)
        self.assertEqual((run.status, run.summary), ("running", {}))
        self.assertGreaterEqual(run.metrics("train")[-1]["step"], 2)
        self.assertEqual(report_in(run._repr_html_())["runs"][0]["status"], "running")
        python.send(signal.SIGINT)
        self.assertEqual(python.wait(), 0, python.text())
        self.assertIn(f"INTERRUPTED {run.path} preempted", python.out())
        self.assertIn(f"ddprun resume {run.path}", python.out())
        self.assertEqual(run.checkpoints().keys(), set(checkpoint_steps(run.path)))
        self.assertTrue(run.weights("last"))
        self.assert_nothing_left()

    def test_it_ends_with_the_python_that_started_it(self):
        python = self.start_program(sys.executable, "-B", "-c", STOPPED, *SMALL, env=dict(os.environ) | {"PYTHONPATH": ROOT / "sdk/python"})
        self.wait_for_step(python, self.folder / "outputs/digits/latest", 2)
        python.send(signal.SIGKILL)
        python.wait()
        self.assert_nothing_left()
        self.assertEqual(ddprun.run("outputs/digits/latest").status, "preempted")


if __name__ == "__main__":
    unittest.main()

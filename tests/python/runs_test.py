# SPDX-License-Identifier: MIT
"""Runs with other packages: several as a DataFrame, as curves that matplotlib draws, and in docs/notebook.ipynb, as nbconvert runs it."""

import json
import math
import os
import pathlib
import shutil
import sys
import unittest
import unittest.mock
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "sdk/python"), str(ROOT / "tests/end_to_end")]

from browser import report_in  # noqa: E402
from command import CommandTest, all_rows  # noqa: E402

import ddprun  # noqa: E402

CONFIG = "name: made\nseed: {seed}\noptimizer:\n  plugin: sgd\n  lr: {lr}\nrun:\n  dir: {name}\n"


class RunsTest(CommandTest):
    def make(self, name, losses, lr=0.1, seed=1):
        folder = self.folder / name
        (folder / "logs").mkdir(parents=True)
        (folder / "config.yaml").write_text(CONFIG.format(name=name, lr=lr, seed=seed))
        rows = [{"time": i, "attempt": 0, "split": "val", "epoch": 1, "step": 10 * i, "loss": loss} for i, loss in enumerate(losses, 1)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        best = {"val/loss": losses[-1]} if losses else {}
        summary = {"status": "completed", "attempt": 0, "steps": 10 * len(losses), "total_seconds": 2.5, "best": best}
        (folder / "summary.json").write_text(json.dumps(summary))

    def runs(self):
        return ddprun.runs(self.folder)


class Frame(RunsTest):
    def test_a_run_is_a_row_with_its_best_and_the_settings_that_differ(self):
        self.make("slow", [4, 2], lr=0.1)
        self.make("fast", [3, None], lr=0.5)
        frame = self.runs().frame()
        self.assertEqual(list(frame.columns), ["status", "steps", "seconds", "val/loss", "optimizer.lr"])
        self.assertEqual(frame.loc["slow"].to_list(), ["completed", 20, 2.5, 2, 0.1])
        self.assertEqual(frame.loc["fast", "optimizer.lr"], 0.5)
        self.assertTrue(math.isnan(frame.loc["fast", "val/loss"]))

    def test_a_run_that_cannot_be_read_has_its_row(self):
        self.make("good", [1])
        self.make("bad", [1])
        (self.folder / "bad/summary.json").unlink()
        (self.folder / "bad/summary.json").symlink_to("/etc/hostname")
        frame = self.runs().frame()
        self.assertEqual(dict(frame["status"]), {"good": "completed", "bad": "unreadable"})
        self.assertEqual(len(ddprun.runs(self.folder / "good").frame()), 1)

    def test_no_runs_are_an_empty_frame(self):
        self.assertEqual(len(self.runs().frame()), 0)


class Plot(RunsTest):
    def lines(self, axes):
        return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()}

    def test_a_line_is_a_run_named_by_what_differs(self):
        self.make("slow", [4, 2], lr=0.1)
        self.make("fast", [3, 1], lr=0.5)
        axes = self.runs().plot("val/loss")
        self.assertEqual(self.lines(axes), {"optimizer.lr=0.1": ([10, 20], [4, 2]), "optimizer.lr=0.5": ([10, 20], [3, 1])})
        self.assertEqual((axes.get_xlabel(), axes.get_ylabel()), ("step", "val/loss"))
        self.assertEqual(self.lines(self.runs().plot("val/loss", x="time"))["optimizer.lr=0.1"][0], [0, 1])

    def test_runs_that_the_settings_do_not_distinguish_have_their_folders_names(self):
        for name in ("a", "b"):
            self.make(name, [1])
        self.make("c", [1], lr=0.5)
        self.assertEqual(set(self.lines(self.runs().plot("val/loss"))), {"a", "b", "c"})

    def test_runs_are_chosen_by_their_folders_and_by_a_slice(self):
        for name in ("x/a", "x/b", "y/c", "y/d"):
            self.make(name, [1])
        chosen = ddprun.runs(self.folder / "x", self.folder / "y/c", self.folder / "x/b")
        self.assertEqual(sorted(chosen.labels()), ["x/a", "x/b", "y/c"])
        self.assertEqual(len(self.lines(chosen[:2].plot("val/loss"))), 2)

    def test_a_run_without_the_metric_is_left_out_with_a_warning(self):
        self.make("a", [1])
        self.make("b", [])
        with self.assertWarnsRegex(UserWarning, "left out: .*b: there is no metric val/loss"):
            axes = self.runs().plot("val/loss")
        self.assertEqual(list(self.lines(axes)), ["a"])

    def test_a_metric_that_no_run_has_is_refused(self):
        self.make("a", [1])
        for metric, reported in (("val/los", "did you mean val/loss?"), ("val/accuracy", "no metric val/accuracy")):
            with self.assertRaisesRegex(ddprun.UserError, reported), warnings.catch_warnings(action="error"):
                self.runs().plot(metric)
        with self.assertRaisesRegex(ddprun.UserError, "must be step, epoch, samples or time"):
            self.runs().plot("val/loss", x="hours")
        with self.assertRaisesRegex(ddprun.UserError, "there are no runs in"):
            ddprun.runs(self.folder / "a/logs").plot("val/loss")


class Packages(RunsTest):
    def test_one_that_is_not_installed_is_named_with_the_command_that_installs_it(self):
        self.make("a", [1])
        for package, use in (("pandas", self.runs().frame), ("matplotlib", lambda: self.runs().plot("val/loss"))):
            others = {name: module for name, module in sys.modules.items() if name.partition(".")[0] != package}
            with unittest.mock.patch.dict(sys.modules, others | {package: None}, clear=True):
                with self.assertRaisesRegex(ddprun.UserError, f"pip install {package}"):
                    use()


class Notebook(CommandTest):
    def test_it_trains_and_shows_what_was_measured(self):
        shutil.copy(ROOT / "docs/notebook.ipynb", self.folder)
        self.assertFalse(any(self.outputs(cell) for cell in self.code_cells("notebook.ipynb")), "it is kept without outputs")
        running = self.start_program(
            sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", "notebook.ipynb",
            env={"PYTHONPATH": str(ROOT / "sdk/python"), "PATH": os.environ["PATH"]})  # fmt: skip
        self.assertEqual(running.wait(240), 0, running.text())
        train, shown, table, weights, runs = self.code_cells("notebook.ipynb")[1:]
        self.assertIn("Training Summary", "".join(text for output in train["outputs"] for text in output["text"]))

        rows = [row for row in all_rows(self.folder / "outputs/digits/latest") if row["split"] == "val"]
        self.assertEqual(len(rows), 2)
        [reported] = report_in(self.outputs(shown)["text/html"])["runs"]
        [curve] = [one for one in reported["curves"] if (one["split"], one["name"]) == ("val", "loss")]
        self.assertEqual(curve["points"]["step"], [row["step"] for row in rows])
        frame = self.outputs(table)["text/html"]
        self.assertIn('class="dataframe"', frame)
        for row in rows:
            self.assertIn(f"<td>{row['loss']:.6f}</td>", frame)
        self.assertIn("'fc2.bias': (10,)", self.outputs(weights)["text/plain"])
        self.assertIn("completed", self.outputs(runs)["text/html"])

    def code_cells(self, name):
        cells = json.loads((self.folder / name).read_text())["cells"]
        return [cell for cell in cells if cell["cell_type"] == "code"]

    def outputs(self, cell):
        """{kind: text} of the value that the cell shows."""
        shown = [output["data"] for output in cell["outputs"] if "data" in output]
        return {kind: "".join(text) for kind, text in shown[-1].items()} if shown else {}


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("agg")
    unittest.main()

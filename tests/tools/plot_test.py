# SPDX-License-Identifier: MIT
"""tools/plot: the figure holds the points and words that were asked for, as read from its SVG; mistakes are told."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/plot"
sys.path.insert(0, str(TOOL.parents[1] / "sdk/python"))

from ddprun import Run  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


class Figure:
    """What an SVG of ours shows."""

    def __init__(self, file):
        self.root = xml.etree.ElementTree.parse(file).getroot()
        self.texts = ["".join(one.itertext()) for one in self.root.iter(f"{SVG}text")]
        self.lines = {group.get("id"): group for group in self.root.iter(f"{SVG}g") if ": " in (group.get("id") or "")}

    def points(self, line):
        """[(x, y)] on the page, y downwards: of the markers."""
        return [(float(use.get("x")), float(use.get("y"))) for use in self.lines[line].iter(f"{SVG}use")]

    def vertices(self, line):
        return [
            tuple(map(float, pair))
            for pair in re.findall(r"[ML] ([\d.]+) ([\d.]+)", next(self.lines[line].iter(f"{SVG}path")).get("d"))
        ]


class PlotTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-plot-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)

    def make_run(self, name, rows, seed=1, lr=0.1, **extra):
        run = self.folder / "runs" / name
        run.mkdir(parents=True)
        (run / "config.yaml").write_text(
            f"name: made\nseed: {seed}\noptimizer:\n  plugin: sgd\n  lr: {lr}\nrun:\n  dir: {name}\n"
        )
        with open(run / "metrics.jsonl", "w") as file:
            for row in rows:
                file.write(
                    json.dumps(
                        {
                            "attempt": 0,
                            "split": "val",
                            "samples": 8 * row["step"],
                            "time": 1000 + row["step"],
                            "epoch": -(-row["step"] // 10),
                        }
                        | row
                        | extra
                    )
                    + "\n"
                )
        return run

    def plot(self, *words, code=0):
        command = [sys.executable, "-B", TOOL, *words]
        done = subprocess.run(list(map(str, command)), cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def draw(self, *words):
        self.plot(*words, "--out", "figure.svg")
        return Figure(self.folder / "figure.svg")

    def assert_spaced_as(self, places, values):
        """On a linear axis: the same proportions."""
        self.assertEqual(len(places), len(values))
        for place, value in zip(places, values):
            expected = places[0] + (places[-1] - places[0]) * (value - values[0]) / (values[-1] - values[0])
            self.assertAlmostEqual(place, expected, delta=0.01)


class Curves(PlotTest):
    def test_every_point_is_where_it_belongs(self):
        steps, values = [10, 20, 40, 50], [0.5, 0.25, 0.75, 1]
        self.make_run("a", [{"step": step, "accuracy": value} for step, value in zip(steps, values)])
        for axis, places in (("step", steps), ("samples", steps), ("epoch", steps), ("time", steps)):
            figure = self.draw("runs/a", "--metric", "val/accuracy", "--x", axis)
            points = figure.points("val/accuracy: a")
            self.assert_spaced_as([x for x, _ in points], places)
            self.assert_spaced_as([y for _, y in points], values)
        self.assertIn("validation accuracy", figure.texts)
        self.assertIn("time (s)", figure.texts)
        self.assertNotIn("a", figure.texts)  # a legend of one line says nothing

    def test_epochs_are_as_long_as_the_run_says_or_its_rows_show(self):
        run = self.make_run("a", [{"step": step, "loss": step} for step in (5, 10, 15)])
        self.assertEqual(Run(run).curve("val/loss", "epoch")[0], [0.5, 1, 1.5])
        (run / "summary.json").write_text('{"steps": 15, "epochs": 0.75}')
        self.assertEqual(Run(run).curve("val/loss", "epoch")[0], [0.25, 0.5, 0.75])

    def test_rows_that_were_taken_back_are_not_drawn(self):
        self.make_run(
            "a",
            [
                {"step": 10, "loss": 3},
                {"step": 20, "loss": 9},
                {"step": 30, "loss": 9},
                {"step": 20, "loss": 2, "attempt": 1},
                {"step": 40, "loss": 1, "attempt": 1},
            ],
        )
        self.assert_spaced_as(
            [y for _, y in self.draw("runs/a", "--metric", "val/loss").points("val/loss: a")], [3, 2, 1]
        )

    def test_a_value_that_is_not_finite_is_a_gap(self):
        self.make_run(
            "a", [{"step": 10, "loss": 3}, {"step": 20, "loss": None, "nonfinite": ["loss"]}, {"step": 30, "loss": 2}]
        )
        self.assertEqual(len(self.draw("runs/a", "--metric", "val/loss").points("val/loss: a")), 2)

    def test_the_time_between_two_attempts_does_not_count(self):
        self.make_run(
            "a",
            [
                {"step": 10, "loss": 1, "time": 0},
                {"step": 20, "loss": 2, "time": 10},
                {"step": 30, "loss": 3, "time": 20},
                {"step": 30, "loss": 3, "time": 9000, "attempt": 1},
                {"step": 40, "loss": 4, "time": 9010, "attempt": 1},
            ],
        )
        figure = self.draw("runs/a", "--metric", "val/loss", "--x", "time")
        self.assert_spaced_as([x for x, _ in figure.points("val/loss: a")], [0, 10, 10, 20])
        self.assertIn("time (s)", figure.texts)

    def test_smoothing(self):
        self.make_run("a", [{"step": 1, "loss": 4}, {"step": 2, "loss": 1}, {"step": 3, "loss": 1}])
        figure = self.draw("runs/a", "--metric", "val/loss", "--smooth", "0.5")
        self.assert_spaced_as(
            [y for _, y in figure.points("val/loss: a")], [4, (0.5 * 4 + 1) / 1.5, (0.25 * 4 + 0.5 + 1) / 1.75]
        )

    def test_logarithmic_axes(self):
        self.make_run("a", [{"step": step, "loss": step} for step in (1, 10, 100)])
        points = self.draw("runs/a", "--metric", "val/loss", "--log", "xy").points("val/loss: a")
        self.assert_spaced_as([x for x, _ in points], [0, 1, 2])
        self.assert_spaced_as([y for _, y in points], [0, 1, 2])


class Labels(PlotTest):
    def setUp(self):
        super().setUp()
        for lr, seed, values in ((0.1, 1, (1, 2)), (0.1, 2, (3, 6)), (0.5, 1, (5, 7))):
            self.make_run(
                f"lr{lr}_{seed}", [{"step": 10 * i, "loss": value} for i, value in enumerate(values, 1)], seed, lr
            )

    def test_what_differs_names_the_runs(self):
        (self.folder / "runs/latest").symlink_to("lr0.5_1")
        figure = self.draw("runs", "--metric", "val/loss")
        self.assertEqual(
            set(figure.lines),
            {f"val/loss: {label}" for label in ("seed = 1, lr = 0.1", "seed = 2, lr = 0.1", "seed = 1, lr = 0.5")},
        )
        self.assertIn("seed = 2, lr = 0.1", figure.texts)

    def test_names_as_asked_for(self):
        figure = self.draw(
            "runs/lr0.1_1", "runs/lr0.5_1", "--metric", "val/loss", "--label", "optimizer.plugin,optimizer.lr"
        )
        self.assertEqual(set(figure.lines), {"val/loss: sgd, lr = 0.1", "val/loss: sgd, lr = 0.5"})
        figure = self.draw(
            "runs/lr0.1_1",
            "runs/lr0.5_1",
            "--metric",
            "val/loss",
            "--names",
            "slow,fast",
            "--xlabel",
            "X",
            "--ylabel",
            "Y",
            "--title",
            "T",
        )
        self.assertLessEqual({"slow", "fast", "X", "Y", "T"}, set(figure.texts))

    def test_seeds_are_one_line_and_a_band(self):
        figure = self.draw("runs", "--metric", "val/loss", "--group", "--band", "range")
        self.assertEqual(set(figure.lines), {"val/loss: lr = 0.1 (2 runs)", "val/loss: lr = 0.5"})
        mean, alone = figure.points("val/loss: lr = 0.1 (2 runs)"), figure.points("val/loss: lr = 0.5")
        self.assert_spaced_as([mean[0][1], mean[1][1], alone[0][1], alone[1][1]], [2, 4, 5, 7])
        bands = [group for group in figure.root.iter(f"{SVG}g") if (group.get("id") or "").startswith("FillBetween")]
        self.assertEqual(len(bands), 1)

    def test_a_mean_ends_where_the_first_of_its_runs_ends(self):
        self.make_run("lr0.1_3", [{"step": 10, "loss": 2}], 3, 0.1)
        said = self.plot("runs", "--metric", "val/loss", "--group", "--out", "figure.svg")
        self.assertIn("lr = 0.1, val/loss: shown up to step 10, where the first run ends, not 20", said)
        self.assertEqual(len(Figure(self.folder / "figure.svg").points("val/loss: lr = 0.1 (3 runs)")), 1)

    def test_splits_of_a_quantity_share_a_panel(self):
        self.make_run("b", [{"step": 10, "loss": 2, "accuracy": 1}, {"step": 10, "loss": 3, "split": "train"}])
        figure = self.draw(
            "runs/b", "--metric", "train/loss", "--metric", "val/loss", "--metric", "val/accuracy", "--size", "double"
        )
        self.assertLessEqual({"training", "validation", "loss", "validation accuracy"}, set(figure.texts))
        self.assertEqual(
            len([group for group in figure.root.iter(f"{SVG}g") if re.fullmatch(r"axes_\d+", group.get("id") or "")]), 2
        )


class Files(PlotTest):
    def setUp(self):
        super().setUp()
        self.make_run("a", [{"step": 10, "loss": 2}, {"step": 20, "loss": 1}])

    def test_each_format_by_its_suffix(self):
        for suffix, start in ((".pdf", b"%PDF"), (".png", b"\x89PNG"), (".svg", b"<?xml")):
            data = []
            for _ in range(2):
                self.plot("runs/a", "--metric", "val/loss", "--out", f"figure{suffix}")
                data.append((self.folder / f"figure{suffix}").read_bytes())
            self.assertTrue(data[0].startswith(start))
            self.assertEqual(data[0], data[1], "the same runs make the same file")
        self.plot("runs/a", "--metric", "val/loss", "--out", "figure.pdf")
        self.assertIn(b"/FontFile2", (self.folder / "figure.pdf").read_bytes())
        self.assertNotIn(b"/Type3", (self.folder / "figure.pdf").read_bytes())

    def test_sizes_are_inches(self):
        for size, box in (("single", "252 172.8"), ("double", "515.52 187.2"), ("2x1", "144 72")):
            figure = self.draw("runs/a", "--metric", "val/loss", "--size", size)
            self.assertEqual(figure.root.get("viewBox"), f"0 0 {box}")

    def test_mistakes_are_told(self):
        for words, text in (
            (["nowhere", "--metric", "val/loss", "--out", "f.pdf"], "nowhere: no such run"),
            (
                ["runs/a", "--metric", "val/los", "--out", "f.pdf"],
                "there is no metric val/los; did you mean val/loss? known: val/loss",
            ),
            (
                ["runs/a", "--metric", "val/loss", "--out", "f.jpg"],
                "f.jpg: the name must end with one of .pdf, .png, .svg",
            ),
            (["runs/a", "--metric", "val/loss", "--out", "q/f.pdf"], "there is no folder q"),
            (
                ["runs/a", "--metric", "val/loss", "--out", "f.pdf", "--label", "optimizer.l"],
                "did you mean optimizer.lr?",
            ),
            (["runs/a", "--metric", "val/loss", "--out", "f.pdf", "--names", "a,b"], "--names: 2 for 1 lines"),
            (["runs/a", "--metric", "val/loss", "--out", "f.pdf", "--size", "big"], "or inches as 3.5x2.4"),
            (["runs/a", "--metric", "val/loss", "--out", "f.pdf", "--smooth", "1"], "from 0 to less than 1"),
        ):
            said = self.plot(*words, code=2)
            self.assertIn(text, said)
            self.assertNotIn("Traceback", said)

    def test_without_matplotlib_the_command_that_installs_it_is_told(self):
        program = f"""
import runpy, sys
sys.modules["matplotlib"] = None
sys.argv = ["plot", "runs/a", "--metric", "val/loss", "--out", "f.pdf"]
sys.path.insert(0, {str(TOOL.parent)!r})
runpy.run_path({str(TOOL)!r}, run_name="__main__")"""
        done = subprocess.run(
            [sys.executable, "-I", "-c", program], cwd=self.folder, capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("pip install matplotlib", done.stderr)


if __name__ == "__main__":
    unittest.main()

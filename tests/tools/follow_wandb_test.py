# SPDX-License-Identifier: MIT
"""tools/follow with the real wandb package, without a network: every row and value of each kind arrives."""

import base64
import hashlib
import json
import math
import os
import shutil
import sys
import unittest

import yaml
from PIL import Image

from follow_test_case import TOOL, WORDS, FollowTest, metrics_line, table_line

from command import all_rows
from wandb_runs import WandbRun


class WholeRun(FollowTest):
    def test_everything_of_a_run_arrives(self):
        self.ddprun(*WORDS, "run.dir=run", "name='odd: #1 \"x\" \\'", "optimizer.lr=0.02")
        self.run_dir = self.folder / "run"
        found = self.sent("--project", "p", "--entity", "e", "--name", "n", "--group", "g", "--tags", "a,b")
        self.assert_rows_arrived(found, all_rows(self.run_dir, measured=True))
        self.assertEqual(found.steps(), list(range(len(found.history))))
        self.assertEqual(found.exits, [0])
        start = found.start
        self.assertEqual((start.project, start.entity, start.display_name, start.run_group, list(start.tags)), ("p", "e", "n", "g", ["a", "b"]))
        config = yaml.safe_load((self.run_dir / "config.yaml").read_text())
        self.assertEqual({key: value for key, value in found.config.items() if key != "_wandb"}, config)
        self.assertEqual((found.summary["status"], found.summary["steps"]), ("completed", 20))
        self.assertEqual([name for name in found.summary if name.startswith("history")], ["history_left_out"])  # the rest are rows
        self.assert_tables_arrived(found)

    def assert_tables_arrived(self, found):
        tables = [json.loads(line) for line in (self.run_dir / "tables.jsonl").read_text().splitlines()]
        confusions = [table for table in tables if table["kind"] == "confusion"]
        rows = [row for row in found.history if any(name.endswith("confusion_table.path") for name in row)]
        self.assertEqual(len(rows), 3)  # of two epochs, and of the test
        for table, row in zip(confusions, rows):
            names, counts = table["classes"], table["counts"]
            self.assertEqual(row["step"], table["step"])
            self.assertEqual(
                found.table(row[f"{table['split']}/confusion_table.path"])["data"],
                [[truth, guess, counts[i][j]] for i, truth in enumerate(names) for j, guess in enumerate(names)],
            )
        table = next(table for table in reversed(tables) if table["kind"] == "predictions")
        row = next(row for row in reversed(found.history) if "val/predictions.path" in row)
        shown = found.table(row["val/predictions.path"])
        self.assertEqual(
            [[one["id"], str(one["guess"]), str(one["truth"]), one["guess"] == one["truth"], *one["scores"]] for one in table["rows"]],
            [[values[0], *values[2:]] for values in shown["data"]],
        )
        self.assertEqual(shown["columns"], ["id", "image", "guess", "truth", "right", *(f"score_{i}" for i in range(10))])
        files = [(self.run_dir / one["image"]).read_bytes() for one in table["rows"]]
        digests = {base64.b64encode(hashlib.md5(file).digest()).decode() for file in files}
        artifact = [one for one in found.artifacts if "predictions" in one.name][-1]
        images = [one for one in artifact.manifest.contents if one.path.endswith(".png")]
        self.assertEqual({one.digest for one in images}, digests)
        for one in images:  # they are sent later, from here, wherever the home is by then
            self.assertTrue(one.local_path.startswith(f"{self.run_dir}/wandb/") and os.path.exists(one.local_path), one.local_path)

    def test_a_later_call_stays_in_the_project_and_keeps_the_name(self):
        self.fabricate(metrics=[metrics_line(1, loss=1)])
        self.sent("--project", "p", "--name", "n")
        self.append("metrics", [metrics_line(2, loss=2)])
        err = self.followed(self.run_dir, "--offline", "--project", "q", code=2).err()
        self.assertIn("belongs to the project p of wandb, not q", err)
        found = self.sent()
        self.assertEqual((found.start.project, found.start.display_name, len(found.history)), ("p", "n", 2))

    def test_several_runs_at_once(self):
        folders = []
        for value in (1, 2):
            self.fabricate(metrics=[metrics_line(1, loss=value)])
            folders.append(self.run_dir.rename(self.folder / f"run{value}"))
        self.followed(*folders, "--offline")
        for folder, value in zip(folders, (1, 2)):
            found = WandbRun(folder)
            self.assertEqual([row["train/loss"] for row in found.history], [value])
            self.assertEqual((found.start.display_name, found.exits), (f"made/{folder.name}", [0]))

    def test_a_terminal_obeys_nothing_of_a_folder(self):
        self.fabricate(metrics=[metrics_line(1, loss=1)])
        folder = self.run_dir.rename(self.folder / "\x1b[2J")
        for reported in ("1 rows sent", "nothing new"):
            self.assertRegex(self.followed(folder, "--offline").err(), rf"(?s)^[^\x1b]*/\?\[2J: [^\x1b]*{reported}[^\x1b]*$")

    def test_a_second_call_sends_nothing(self):
        self.fabricate(metrics=[metrics_line(1, loss=1)])
        self.sent()
        self.assertIn("there is nothing new", self.followed(self.run_dir, "--offline").err())
        self.assertEqual(len(WandbRun(self.run_dir).folders), 1)


class EachKind(FollowTest):
    def test_numbers_that_are_not_finite(self):
        lines = [metrics_line(1, loss=None, nonfinite=["loss"]), metrics_line(2, loss=0.5, accuracy=1), metrics_line(2, split="system", rss_bytes=7)]
        self.fabricate(metrics=lines)
        found = self.sent()
        self.assert_rows_arrived(found, lines)
        self.assertTrue(math.isnan(found.history[0]["train/loss"]))
        self.assertEqual([row["_timestamp"] for row in found.history], [1700000001.5, 1700000002.5, 1700000002.5])

    def test_histograms(self):
        one = {"name": "weights/a.weight", "count": 5, "nonfinite": 1, "min": 0, "max": 2, "mean": 1, "stddev": 1}
        full, empty = one | {"edges": [0, 1, 2], "counts": [3, 1]}, one | {"name": "gradients/a.weight", "edges": [], "counts": []}
        self.fabricate(tables=[table_line("histograms", "train", histograms=[full, empty])])
        row = self.sent().history[0]
        self.assertEqual(
            (row["step"], row["weights/a.weight._type"], row["weights/a.weight.bins"], row["weights/a.weight.values"]),
            (9, "histogram", [0, 1, 2], [3, 1]),
        )
        self.assertEqual((row["weights/a.weight/nonfinite"], row["gradients/a.weight/nonfinite"]), (1, 1))
        self.assertNotIn("gradients/a.weight._type", row)

    def shown(self, *rows):
        """The columns and rows of the table of predictions."""
        self.fabricate(tables=[table_line("predictions", classes=[], rows=rows)])
        found = self.sent()
        table = found.table(found.history[0]["val/predictions.path"])
        return table["columns"], table["data"]

    def picture(self, file):
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (2, 2)).save(file)
        return file

    def test_predictions_of_values_and_images_that_are_gone(self):
        rows = self.shown({"id": 3, "truth": [1.5], "scores": [1.25]}, {"id": 4, "truth": [2], "scores": [2], "image": "images/val/4.png"})
        self.assertEqual(rows, (["id", "image", "truth_0", "prediction_0"], [[3, None, 1.5, 1.25], [4, None, 2, 2]]))

    def test_images_that_a_model_makes_are_beside_those_it_gets(self):
        self.picture(self.folder / "run/images/val/4_step_9.png")
        rows = self.shown({"id": 4, "truth": [], "scores": [], "image": "images/val/none.png", "output": "images/val/4_step_9.png"})
        self.assertEqual(rows, (["id", "image", "output"], [[4, None, "Image"]]))

    def test_images_that_are_not_in_the_run_are_not_sent(self):
        private = self.picture(self.folder / "private.png")
        (self.folder / "run/images").mkdir(parents=True)
        (self.folder / "run/images/link.png").symlink_to(private)
        names = ("../private.png", str(private), "images/link.png")
        _, rows = self.shown(*({"id": i, "truth": [], "scores": [], "image": name} for i, name in enumerate(names)))
        self.assertEqual([row[1] for row in rows], [None] * 3)

    def test_events_are_one_growing_table(self):
        event = {"time": 1700000000, "attempt": 0, "epoch": 1, "step": 5, "kind": "checkpoint", "text": "saved"}
        self.fabricate(events=[event])
        self.sent()
        self.append("events", [{"time": 1700000001, "attempt": 0, "kind": "end", "text": "completed: all"}])
        found = self.sent()
        tables = [found.table(row["events.path"])["data"] for row in found.history]
        self.assertEqual(
            [[row[3:] for row in table] for table in tables],
            [[[5, "checkpoint", "saved"]], [[5, "checkpoint", "saved"], [None, "end", "completed: all"]]],
        )

    def test_a_kind_that_a_later_version_writes_is_let_pass(self):
        self.fabricate(metrics=[metrics_line(1, loss=1)], tables=[table_line("spectra")])
        self.assert_rows_arrived(self.sent(), [metrics_line(1, loss=1)])

    def test_the_status_of_the_run_is_that_of_wandb(self):
        for status, code in (("stopped_early", 0), ("failed", 1), ("preempted", 1)):
            self.fabricate(status, metrics=[metrics_line(1, loss=1)])
            found = self.sent()
            self.assertEqual((found.exits, found.summary["status"], found.preempting), ([code], status, status == "preempted"))
            self.assertEqual((found.summary["best.val/loss"], found.summary["stop_reason"]), (0.5, "so"))
            shutil.rmtree(self.run_dir)

    def test_rows_that_an_attempt_took_back_are_not_sent(self):
        lines = [metrics_line(2, loss=1), metrics_line(4, loss=2), metrics_line(4, 1, loss=3), metrics_line(6, 1, loss=4)]
        self.fabricate(metrics=lines)
        self.assert_rows_arrived(self.sent(), [lines[0], *lines[2:]])


class Mistakes(FollowTest):
    def test_they_are_reported(self):
        self.fabricate(metrics=[metrics_line(1, loss=1)])
        for words, code, text in (
            (["nowhere"], 2, "nowhere: No such file or directory"),
            ([self.folder], 2, f"{self.folder} is not a run folder"),
            (["run", "--poll", "0"], 2, "must be more than 0"),
            (["run"], 1, "log in once with `wandb login`"),
        ):
            err = self.followed(*words, code=code).err()
            self.assertIn(text, err)
            self.assertNotIn("Traceback", err)
        without = ("import runpy, sys; sys.modules['wandb'] = None; sys.argv = ['follow', '--to', 'wandb', 'run']; "
                   f"sys.path.insert(0, {str(TOOL.parent)!r}); runpy.run_path({str(TOOL)!r}, run_name='__main__')")  # fmt: skip
        running = self.start_program(sys.executable, "-I", "-c", without)
        self.assertEqual(running.wait(), 2)
        self.assertIn("pip install wandb pillow", running.err())


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""tools/follow and ClearML, Trackio, DVCLive and Aim, by night: tests/tools/all_trackers has their clients."""

import csv
import gc
import json
import unittest

from follow_test_case import FollowTest, metrics_line
from follow_tracker_case import TrackerTest


class Clearml(TrackerTest, FollowTest):
    tracker = "clearml"
    arguments = ("--offline",)

    def events(self):
        lines = [line for file in self.run_dir.glob("clearml/offline/*/metrics.jsonl") for line in file.read_text().splitlines()]
        return [event for line in lines for event in json.loads(line)]

    def numbers(self):
        scalars = [one for one in self.events() if one["type"] == "training_stats_scalar"]
        return [(f"{one['variant']}/{one['metric']}", one["iter"], one["value"]) for one in scalars]

    def parameters(self):
        newest = max(self.run_dir.glob("clearml/offline/*/task.json"), key=lambda file: file.stat().st_mtime)
        return json.loads(newest.read_text())["hyperparams"]

    def settings(self):
        return self.parameters()["experiment"]["seed"]["value"]

    def status(self):
        return self.parameters()["run"]["status"]["value"]

    def pictures(self):
        return sum(1 for _ in self.run_dir.glob("clearml/offline/*/data/**/*.png"))


class Trackio(TrackerTest, FollowTest):
    tracker = "trackio"

    def places(self):
        return {"TRACKIO_DIR": str(self.folder / "trackio")}

    def rows(self):
        from trackio import sqlite_storage

        sqlite_storage.TRACKIO_DIR = self.folder / "trackio"
        self.config = sqlite_storage.SQLiteStorage.get_run_config("made", "made/run")
        return sqlite_storage.SQLiteStorage.get_logs("made", "made/run")

    def numbers(self):
        return [(name, row["step"], value) for row in self.rows() for name, value in row.items() if isinstance(value, float)]

    def settings(self):
        self.rows()
        return str(self.config["seed"])

    def status(self):
        return [row["status"] for row in self.rows() if "status" in row][-1]

    def pictures(self):
        return sum(1 for _ in (self.folder / "trackio").rglob("*.png"))


class Dvclive(TrackerTest, FollowTest):
    tracker = "dvclive"

    def numbers(self):
        found, folder = [], self.run_dir / "dvclive/plots/metrics"
        for file in folder.rglob("*.tsv"):
            with open(file, newline="") as lines:
                rows = list(csv.reader(lines, delimiter="\t"))[1:]
            name = file.relative_to(folder).with_suffix("").as_posix()
            found += [(name, int(step), float(value)) for step, value in rows]
        return found

    def settings(self):
        lines = (self.run_dir / "dvclive/params.yaml").read_text().splitlines()
        return dict(line.split(": ") for line in lines)["seed"]

    def status(self):
        return json.loads((self.run_dir / "dvclive/metrics.json").read_text())["status"]

    def pictures(self):
        return sum(1 for _ in (self.run_dir / "dvclive/plots/images").rglob("*.png"))


class Aim(TrackerTest, FollowTest):
    tracker = "aim"

    @property
    def arguments(self):
        return "--uri", self.folder / "repository"

    def test_a_later_call_stays_in_the_experiment(self):
        self.fabricate()
        for step, words in enumerate((["--project", "p"], [])):
            self.append("metrics", [metrics_line(step, loss=1)])
            self.followed(self.run_dir, *self.arguments, *words)
        self.assertEqual(self.found().experiment, "p")

    def found(self):
        import aim

        header = json.loads((self.run_dir / "aim/follow.jsonl").read_text().splitlines()[1])
        if not hasattr(self, "opened"):
            self.addCleanup(self.release)
            self.opened = aim.Run(header["id"], repo=str(self.folder / "repository"), force_resume=True, system_tracking_interval=None,
                                  capture_terminal_logs=False)  # fmt: skip
        return self.opened

    def release(self):
        """Before its folder is removed: Aim would still write to it, and wait for ever at the end of the process."""
        self.opened.close()
        del self.opened
        gc.collect()

    def numbers(self):
        found = []
        for metric in self.found().metrics():
            steps, (values, *_) = metric.data.numpy()
            name = f"{metric.context.to_dict()['subset']}/{metric.name}"
            found += [(name, int(step), float(value)) for step, value in zip(steps, values)]
        return found

    def settings(self):
        return str(self.found()["hparams"]["seed"])

    def status(self):
        return self.found()["summary"]["status"]

    def pictures(self):
        from aim.storage.context import Context

        sequence = self.found().get_image_sequence("val/predictions/image", Context({}))
        return sum(len(images) for images in sequence.values.values_list())


if __name__ == "__main__":
    unittest.main()

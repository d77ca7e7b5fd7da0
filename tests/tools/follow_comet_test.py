# SPDX-License-Identifier: MIT
"""tools/follow and Comet: the archives that its client keeps without a network."""

import json
import pathlib
import unittest
import zipfile

import comet_ml  # noqa: F401; for the forks

from follow_test_case import FollowTest, metrics_line
from follow_tracker_case import TrackerTest


class Comet(TrackerTest, FollowTest):
    tracker = "comet"
    arguments = ("--offline",)
    client_is_imported = True

    def test_a_tracker_that_refuses_loses_nothing(self):
        lines = [metrics_line(1, loss=0.5)]
        self.fabricate(metrics=lines)
        self.assertIn("or set COMET_API_KEY", self.followed(self.run_dir, code=1).err())
        self.to_end(self.start_next())
        self.assertEqual(self.losses(), self.expected(lines))

    def test_a_later_call_keeps_the_name(self):
        self.fabricate()
        for step, words in enumerate((["--name", "n"], [])):
            self.append("metrics", [metrics_line(step, loss=1)])
            self.arguments = "--offline", *words
            self.to_end(self.start_next())
        self.assertEqual([payload["value"] for kind, payload in self.messages() if kind == "log_other" and payload["key"] == "Name"], ["n"])

    def messages(self):
        found = []
        for file in (self.run_dir / "comet").glob("*.zip"):
            if zipfile.is_zipfile(file) and "messages.json" in (archive := zipfile.ZipFile(file)).namelist():  # else it was killed
                found += [json.loads(line) for line in archive.read("messages.json").decode().splitlines()]
        return [(one["type"], one["payload"]) for one in found]

    def numbers(self):
        metrics = [payload["metric"] for kind, payload in self.messages() if kind == "metric_msg"]
        return [(one["metricName"], one["step"], float(one["metricValue"])) for one in metrics]

    def settings(self):
        values = {payload["param"]["paramName"]: payload["param"]["paramValue"] for kind, payload in self.messages() if kind == "parameter_msg"}
        return str(values["seed"])

    def status(self):
        return {payload["key"]: payload["value"] for kind, payload in self.messages() if kind == "log_other"}["status"]

    def pictures(self):
        return sum(kind == "file_upload" and payload.get("upload_type") == "visualization" for kind, payload in self.messages())


class Mistakes(FollowTest):
    def test_a_client_that_is_missing_is_named(self):
        self.fabricate(metrics=[metrics_line(1, loss=1)])
        hidden = pathlib.Path(self.folder, "comet_ml.py")
        hidden.write_text("raise ImportError('there is no comet_ml')\n")
        self.tracker = "comet"
        err = self.followed(self.run_dir, code=2, env={"PYTHONPATH": str(self.folder)}).err()
        self.assertIn("pip install comet_ml", err)
        self.assertNotIn("Traceback", err)


if __name__ == "__main__":
    unittest.main()

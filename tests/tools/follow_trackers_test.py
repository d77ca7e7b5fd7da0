# SPDX-License-Identifier: MIT
"""tools/follow with each tracker's real client, without a network: what the client has kept is what the run has written.

tests/tools/peers has the clients of MLflow and Comet, tests/tools/all_trackers those of the others, for the night."""

import csv
import json
import math
import os
import pathlib
import signal
import unittest
import zipfile

from follow_test_case import FollowTest, metrics_line

from command import NIGHTLY

PICTURE = (  # 1 by 1, grey
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    "3a7e9b550000000a49444154789c63680000008200812dd2a3a80000000049454e44ae426082"
)
PLACE = {"attempt": 0, "split": "val", "epoch": 1, "step": 5, "time": 1700000005}
TABLES = [
    {"kind": "confusion", **PLACE, "classes": ["cat", "dog"], "counts": [[3, 1], [0, 2]]},
    {"kind": "predictions", **PLACE, "classes": ["cat", "dog"],
     "rows": [{"id": 7, "truth": 0, "guess": 1, "scores": [0.25, 0.75], "image": "images/7.png"}]},
    {"kind": "histograms", **PLACE,
     "histograms": [{"name": "weights/a.weight", "nonfinite": 0, "edges": [0, 1, 2], "counts": [3, 1]}]},
]  # fmt: skip


class TrackerTest:
    """The claims, of every tracker. What it kept is read by numbers(): a list of (name, step, value), settings(), status()
    and pictures(), how many."""

    arguments = ()
    nightly = False

    def setUp(self):
        if self.nightly and not NIGHTLY:
            self.skipTest("nightly")
        super().setUp()

    def sent_all(self, env=None):
        return self.followed(self.run_dir, *self.arguments, env=self.places() | (env or {}))

    def places(self):
        return {}

    def expected(self, lines):
        return sorted((f"{line['split']}/loss", line["step"], line["loss"]) for line in lines)

    def losses(self):
        return sorted((name, step, value) for name, step, value in self.numbers() if name.endswith("/loss"))

    def test_a_whole_run_arrives(self):
        lines = [metrics_line(step, split=split, loss=1 / (step + 1)) for step in range(20) for split in ("train", "val")]
        bad = metrics_line(21, loss=None, nonfinite=["loss"])
        self.fabricate(metrics=[*lines, bad], tables=TABLES)
        (self.run_dir / "images").mkdir()
        (self.run_dir / "images/7.png").write_bytes(bytes.fromhex(PICTURE))
        self.sent_all()
        self.assertEqual([one for one in self.losses() if math.isfinite(one[2]) and one[1] != 21], self.expected(lines))
        self.assertTrue(all(math.isnan(value) for _, step, value in self.losses() if step == 21))
        self.assertEqual((self.settings(), self.status(), self.pictures()), ("1", "completed", 1))
        self.assertIn("there is nothing new", self.sent_all().err())

    def test_a_follower_that_is_killed_sends_every_row_once(self):
        lines = [metrics_line(step, loss=1 / (step + 1)) for step in range(3000)]
        self.fabricate(status=None)
        for begin in (0, 1000, 2000):
            self.append("metrics", lines[begin : begin + 1000])
            notes = self.run_dir / self.tracker / "follow.jsonl"
            known = notes.read_text().count('"end"') if notes.exists() else 0
            follower = self.follow(self.run_dir, *self.arguments, env=self.places())
            self.wait_until(lambda: notes.exists() and notes.read_text().count('"end"') > known, "a batch", follower)
            os.kill(follower.pid, signal.SIGKILL)
            follower.wait()
            self.wait_until(lambda: len(self.processes()) == 0, "the end of what it started")
        self.fabricate("failed")
        self.sent_all()
        self.assertEqual(self.losses(), self.expected(lines))
        self.assertEqual(self.status(), "failed")


class Mlflow(TrackerTest, FollowTest):
    tracker = "mlflow"

    def places(self):
        return {"MLFLOW_TRACKING_URI": f"sqlite:///{self.folder}/mlflow.db", "MLFLOW_ARTIFACT_ROOT": str(self.folder / "artifacts")}

    def found(self):
        import mlflow

        client = mlflow.MlflowClient(self.places()["MLFLOW_TRACKING_URI"])
        (run,) = client.search_runs([client.get_experiment_by_name("made").experiment_id])
        return client, run

    def numbers(self):
        client, run = self.found()
        return [(name, one.step, one.value) for name in run.data.metrics for one in client.get_metric_history(run.info.run_id, name)]

    def settings(self):
        return self.found()[1].data.params["seed"]

    def status(self):
        run = self.found()[1]
        self.assertEqual(run.info.status, "FAILED" if run.data.tags["ddprun.status"] == "failed" else "FINISHED")
        return run.data.tags["ddprun.status"]

    def pictures(self):
        client, run = self.found()
        return len(client.list_artifacts(run.info.run_id, "images/val/predictions/image"))


class Comet(TrackerTest, FollowTest):
    tracker = "comet"
    arguments = ("--offline",)

    def test_a_tracker_that_refuses_loses_nothing(self):
        lines = [metrics_line(1, loss=0.5)]
        self.fabricate(metrics=lines)
        self.assertIn("or set COMET_API_KEY", self.followed(self.run_dir, code=1).err())
        self.sent_all()
        self.assertEqual(self.losses(), self.expected(lines))

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


class Clearml(TrackerTest, FollowTest):
    tracker = "clearml"
    nightly = True
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
    nightly = True

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
    nightly = True

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
    nightly = True

    @property
    def arguments(self):
        return "--uri", self.folder / "repository"

    def found(self):
        import aim

        header = json.loads((self.run_dir / "aim/follow.jsonl").read_text().splitlines()[0])
        if not hasattr(self, "opened"):
            self.addCleanup(lambda: self.opened.close())
            self.opened = aim.Run(header["id"], repo=str(self.folder / "repository"), force_resume=True, system_tracking_interval=None,
                                  capture_terminal_logs=False)  # fmt: skip
        return self.opened

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

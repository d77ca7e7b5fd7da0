# SPDX-License-Identifier: MIT
"""tools/follow and MLflow, with a database: what its client has kept is what the run has written."""

import contextlib
import io
import json
import os
import pathlib
import shutil
import tempfile
import types
import unittest
import unittest.mock

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

import mlflow  # noqa: E402
import sqlalchemy  # noqa: E402

from follow_test_case import FollowTest, metrics_line  # noqa: E402

from ddprun import run  # noqa: E402
from follow.follower import Follower  # noqa: E402
from follow.trackers.mlflow import ITEMS_TAG, Tracker  # noqa: E402

OPTIONS = {"to": "mlflow"} | dict.fromkeys(("project", "name", "tags", "entity", "group", "model"))


class Mlflow(FollowTest):
    @classmethod
    def setUpClass(cls):
        """Makes MLflow's tables once, and does not wait for the disk: its migrations sync a thousand times."""
        sqlalchemy.event.listen(sqlalchemy.Engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = off"))
        cls.database = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()), "mlflow.db")
        mlflow.MlflowClient(f"sqlite:///{cls.database}").search_experiments()

    def setUp(self):
        super().setUp()
        shutil.copy(self.database, self.folder)
        self.uri = f"sqlite:///{self.folder}/mlflow.db"
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)  # where the client puts artifacts

    def send(self):
        """Sends the run to its end, as the command does, which would import the client each time. Returns what it says."""
        with contextlib.redirect_stderr(io.StringIO()) as said:
            follower = Follower(Tracker, run(self.run_dir), types.SimpleNamespace(uri=self.uri, **OPTIONS))
            follower.begin()
            self.assertTrue(follower.poll() and follower.finish(), said.getvalue())
        return said.getvalue()

    def found(self):
        client = mlflow.MlflowClient(self.uri)
        (run,) = client.search_runs([client.get_experiment_by_name("made").experiment_id])
        return client, run

    def numbers(self):
        client, run = self.found()
        return [(name, one.step, one.value) for name in run.data.metrics for one in client.get_metric_history(run.info.run_id, name)]

    def losses(self):
        return sorted((step, value) for name, step, value in self.numbers() if name == "train/loss")

    def test_it_is_asked_how_far_it_came_and_what_a_kill_sends_again_is_there_once(self):
        lines = [metrics_line(step, loss=1 / step) for step in range(1, 3001)]
        self.fabricate("failed", metrics=lines[:2000])
        self.send()
        client, run = self.found()
        self.assertEqual((run.data.tags[ITEMS_TAG], run.info.status), ("2000", "FAILED"))
        for arrived in (0, 1234, 2000):  # by what was noted when the follower was killed
            client.set_tag(run.info.run_id, ITEMS_TAG, str(arrived))
            self.send()
        self.append("metrics", lines[2000:])
        self.send()
        self.assertEqual(self.losses(), [(line["step"], line["loss"]) for line in lines])

    def test_names_that_mlflow_refuses_arrive_as_it_takes_them(self):
        self.fabricate(metrics=[metrics_line(1, **{"iou/person (adult)": 0.5, "iou/person [adult]": 0.25})])
        with open(self.run_dir / "config.yaml", "a") as file:
            file.write("odd@key: 2\n")
        self.send()
        expected = {("train/iou/person _adult_", 1, 0.5), ("train/iou/person _adult__2", 1, 0.25)}  # two stay two
        self.assertLessEqual(expected, set(self.numbers()))
        self.assertEqual(self.found()[1].data.params["odd_key"], "2")

    def test_what_it_refuses_is_set_aside_and_the_rest_arrives(self):
        """A name that is too long, among many rows in one request."""
        lines = [metrics_line(step, loss=1 / (step + 1)) for step in range(20)]
        bad = metrics_line(21, **{"loss": 1, "x" * 600: 1})
        self.fabricate(metrics=[*lines, bad])
        with unittest.mock.patch("follow.trackers.mlflow.LONGEST_NAME", 600):
            said = self.send()
        self.assertIn("MLflow refuses train/xxx", said)
        self.assertEqual(self.losses(), [(line["step"], line["loss"]) for line in (*lines, bad)])
        (refused,) = (self.run_dir / "mlflow/refused.jsonl").read_text().splitlines()
        self.assertEqual(json.loads(refused)["item"]["step"], 21)

    def test_the_run_that_was_made_and_not_noted_is_found_again(self):
        self.fabricate(metrics=[metrics_line(1, loss=1)])
        self.send()
        notes = self.run_dir / "mlflow/follow.jsonl"
        notes.write_text(notes.read_text().splitlines()[0] + "\n")  # killed then
        self.send()
        self.assertEqual(self.losses(), [(1, 1.0)])  # found() takes one run alone

    def test_the_best_values_are_sent_once_for_a_step_with_the_runs_own_times(self):
        ended, refused = ({"time": 1700000009 + n, "step": 1, "kind": kind, "text": "so"} for n, kind in enumerate(("end", "failure")))
        self.fabricate(metrics=[metrics_line(1, loss=1)], events=[ended, refused])
        for _ in range(2):
            self.send()
            self.append("metrics", [metrics_line(2, loss=2)])
        client, run = self.found()
        (best,) = client.get_metric_history(run.info.run_id, "best/val/loss")
        self.assertEqual((best.value, best.timestamp, run.info.end_time), (0.5, 1700000009000, 1700000009000))


if __name__ == "__main__":
    unittest.main()

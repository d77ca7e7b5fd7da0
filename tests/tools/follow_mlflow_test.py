# SPDX-License-Identifier: MIT
"""tools/follow and MLflow: a database."""

import json
import os
import pathlib
import shutil
import tempfile
import unittest
import unittest.mock

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # which is a thread, and forks have none

import mlflow  # noqa: E402
import sqlalchemy  # noqa: E402

from follow_test_case import FollowTest, metrics_line  # noqa: E402
from follow_tracker_case import TrackerTest  # noqa: E402


class Mlflow(TrackerTest, FollowTest):
    tracker = "mlflow"

    client_is_imported = True

    @classmethod
    def setUpClass(cls):
        """Makes MLflow's tables once, and does not wait for the disk: its migrations sync a thousand times."""
        sqlalchemy.event.listen(sqlalchemy.Engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = off"))
        cls.database = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()), "mlflow.db")
        mlflow.MlflowClient(f"sqlite:///{cls.database}").search_experiments()

    def setUp(self):
        super().setUp()
        shutil.copy(self.database, self.folder)

    def places(self):
        return {"MLFLOW_TRACKING_URI": f"sqlite:///{self.folder}/mlflow.db", "MLFLOW_ARTIFACT_ROOT": str(self.folder / "artifacts"),
                "MLFLOW_DISABLE_TELEMETRY": "true"}  # fmt: skip

    def test_names_that_mlflow_refuses_arrive_as_it_takes_them(self):
        self.fabricate(metrics=[metrics_line(1, **{"iou/person (adult)": 0.5, "iou/person [adult]": 0.25})])
        with open(self.run_dir / "config.yaml", "a") as file:
            file.write("odd@key: 2\n")
        self.to_end(self.start_next())
        expected = {("train/iou/person _adult_", 1, 0.5), ("train/iou/person _adult__2", 1, 0.25)}  # two stay two
        self.assertLessEqual(expected, set(self.numbers()))
        self.assertEqual(self.found()[1].data.params["odd_key"], "2")

    def test_what_it_refuses_is_set_aside_and_the_rest_arrives(self):
        """A name that is too long, among many rows in one request."""
        lines = [metrics_line(step, loss=1 / (step + 1)) for step in range(20)]
        bad = metrics_line(21, **{"loss": 1, "x" * 600: 1})
        self.fabricate(metrics=[*lines, bad])
        with unittest.mock.patch("follow.trackers.mlflow.LONGEST_NAME", 600):
            told = self.to_end(self.start_next()).err()
        self.assertIn("MLflow refuses train/xxx", told)
        self.assertEqual(self.losses(), self.expected([*lines, bad]))
        (refused,) = (self.run_dir / "mlflow/refused.jsonl").read_text().splitlines()
        self.assertEqual(json.loads(refused)["item"]["step"], 21)

    def test_the_run_that_was_made_and_not_noted_is_found_again(self):
        self.fabricate(metrics=[metrics_line(1, loss=1)])
        self.to_end(self.start_next())
        notes = self.run_dir / "mlflow/follow.jsonl"
        notes.write_text(notes.read_text().splitlines()[0] + "\n")  # killed then
        self.to_end(self.start_next())
        self.assertEqual(self.losses(), [("train/loss", 1, 1.0)])  # found() takes one run alone

    def test_the_best_values_are_sent_once_for_a_step_with_the_runs_own_times(self):
        ended, refused = ({"time": 1700000009 + n, "step": 1, "kind": kind, "text": "so"} for n, kind in enumerate(("end", "failure")))
        self.fabricate(metrics=[metrics_line(1, loss=1)], events=[ended, refused])
        for _ in range(2):
            self.to_end(self.start_next())
            self.append("metrics", [metrics_line(2, loss=2)])
        client, run = self.found()
        (best,) = client.get_metric_history(run.info.run_id, "best/val/loss")
        self.assertEqual((best.value, best.timestamp, run.info.end_time), (0.5, 1700000009000, 1700000009000))

    def found(self):
        client = mlflow.MlflowClient(self.places()["MLFLOW_TRACKING_URI"])
        (run,) = client.search_runs([client.get_experiment_by_name("made").experiment_id])
        return client, run

    def numbers(self):
        client, run = self.found()
        return [(name, one.step, one.value) for name in run.data.metrics
                if not name.startswith("best/") for one in client.get_metric_history(run.info.run_id, name)]

    def settings(self):
        return self.found()[1].data.params["seed"]

    def status(self):
        run = self.found()[1]
        self.assertEqual(run.info.status, "FAILED" if run.data.tags["ddprun.status"] == "failed" else "FINISHED")
        return run.data.tags["ddprun.status"]

    def pictures(self):
        client, run = self.found()
        return len(client.list_artifacts(run.info.run_id, "images/val/predictions/image"))


if __name__ == "__main__":
    unittest.main()

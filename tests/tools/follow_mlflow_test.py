# SPDX-License-Identifier: MIT
"""tools/follow and MLflow: a database."""

import os
import pathlib
import shutil
import tempfile
import unittest

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
        self.fabricate(metrics=[metrics_line(1, **{"iou/person (adult)": 0.5})])
        with open(self.run_dir / "config.yaml", "a") as file:
            file.write("odd@key: 2\n")
        self.to_end(self.start_next())
        self.assertIn(("train/iou/person _adult_", 1, 0.5), self.numbers())
        self.assertEqual(self.found()[1].data.params["odd_key"], "2")

    def found(self):
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


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""tools/follow and MLflow, with a database: what its client has kept is what the run has written."""

import json
import math
import multiprocessing
import os
import pathlib
import runpy
import shutil
import signal
import sys
import tempfile
import unittest
import unittest.mock

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # which is a thread, and forks have none

import mlflow  # noqa: E402
import sqlalchemy  # noqa: E402

from follow_test_case import TOOL, FollowTest, metrics_line, table_line  # noqa: E402

from command import Running  # noqa: E402

PICTURE = (  # 1 by 1, grey
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    "3a7e9b550000000a49444154789c63680000008200812dd2a3a80000000049454e44ae426082"
)
PREDICTION = {"id": 7, "truth": 0, "guess": 1, "scores": [0.25, 0.75], "image": "images/7.png"}
TABLES = [
    table_line("confusion", classes=["cat", "dog"], counts=[[3, 1], [0, 2]]),
    table_line("predictions", classes=["cat", "dog"], rows=[PREDICTION]),
    table_line("histograms", histograms=[{"name": "weights/a.weight", "nonfinite": 0, "edges": [0, 1, 2], "counts": [3, 1]}]),
]


class ForkedFollower(Running):
    """tools/follow in a fork of this process, which has imported the client: that takes longer than all that it does."""

    def __init__(self, words, folder, environment):
        outputs = pathlib.Path(tempfile.mkdtemp(prefix=".fork-", dir=folder))
        self.out_file, self.err_file = outputs / "out", outputs / "err"
        self.process = multiprocessing.get_context("fork").Process(target=self.run, args=(words, folder, environment))
        self.process.start()
        self.pid = self.process.pid

    def run(self, words, folder, environment):
        for descriptor, file in ((1, self.out_file), (2, self.err_file)):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), descriptor)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None  # it is the parent's
        sys.argv = [str(TOOL), *map(str, words)]
        runpy.run_path(sys.argv[0], run_name="__main__")

    def ended(self):
        return self.process.exitcode is not None

    def wait(self, seconds=120):
        self.process.join(seconds)
        return self.process.exitcode


class Mlflow(FollowTest):
    tracker = "mlflow"

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

    def start_follower(self):
        follower = ForkedFollower(self.words(self.run_dir), self.folder, self.environment(self.places()))
        self.addCleanup(follower.process.kill)
        return follower

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
        self.to_end(self.start_follower())
        self.assertEqual([one for one in self.losses() if math.isfinite(one[2]) and one[1] != 21], self.expected(lines))
        self.assertTrue(all(math.isnan(value) for _, step, value in self.losses() if step == 21))
        self.assertEqual((self.settings(), self.status(), self.pictures()), ("1", "completed", 1))
        self.assertIn("there is nothing new", self.to_end(self.start_follower()).err())

    def test_a_follower_that_is_killed_sends_every_row_once(self):
        lines = [metrics_line(step, loss=1 / (step + 1)) for step in range(3000)]
        self.fabricate(status=None)
        for begin in (0, 1000, 2000):
            self.append("metrics", lines[begin : begin + 1000])
            notes = self.run_dir / "mlflow/follow.jsonl"
            known = notes.read_text().count('"end"') if notes.exists() else 0
            follower = self.start_follower()
            self.wait_until(lambda: notes.exists() and notes.read_text().count('"end"') > known, "a batch", follower)
            os.kill(follower.pid, signal.SIGKILL)
            follower.wait()
            self.wait_until(lambda: len(self.processes()) == 0, "the end of what it started")
        self.fabricate("failed")
        self.to_end(self.start_follower())
        self.assertEqual(self.losses(), self.expected(lines))
        self.assertEqual(self.status(), "failed")

    def test_names_that_mlflow_refuses_arrive_as_it_takes_them(self):
        self.fabricate(metrics=[metrics_line(1, **{"iou/person (adult)": 0.5, "iou/person [adult]": 0.25})])
        with open(self.run_dir / "config.yaml", "a") as file:
            file.write("odd@key: 2\n")
        self.to_end(self.start_follower())
        expected = {("train/iou/person _adult_", 1, 0.5), ("train/iou/person _adult__2", 1, 0.25)}  # two stay two
        self.assertLessEqual(expected, set(self.numbers()))
        self.assertEqual(self.found()[1].data.params["odd_key"], "2")

    def test_what_it_refuses_is_set_aside_and_the_rest_arrives(self):
        """A name that is too long, among many rows in one request."""
        lines = [metrics_line(step, loss=1 / (step + 1)) for step in range(20)]
        bad = metrics_line(21, **{"loss": 1, "x" * 600: 1})
        self.fabricate(metrics=[*lines, bad])
        with unittest.mock.patch("follow.trackers.mlflow.LONGEST_NAME", 600):
            told = self.to_end(self.start_follower()).err()
        self.assertIn("MLflow refuses train/xxx", told)
        self.assertEqual(self.losses(), self.expected([*lines, bad]))
        (refused,) = (self.run_dir / "mlflow/refused.jsonl").read_text().splitlines()
        self.assertEqual(json.loads(refused)["item"]["step"], 21)

    def test_the_run_that_was_made_and_not_noted_is_found_again(self):
        self.fabricate(metrics=[metrics_line(1, loss=1)])
        self.to_end(self.start_follower())
        notes = self.run_dir / "mlflow/follow.jsonl"
        notes.write_text(notes.read_text().splitlines()[0] + "\n")  # killed then
        self.to_end(self.start_follower())
        self.assertEqual(self.losses(), [("train/loss", 1, 1.0)])  # found() takes one run alone

    def test_the_best_values_are_sent_once_for_a_step_with_the_runs_own_times(self):
        ended, refused = ({"time": 1700000009 + n, "step": 1, "kind": kind, "text": "so"} for n, kind in enumerate(("end", "failure")))
        self.fabricate(metrics=[metrics_line(1, loss=1)], events=[ended, refused])
        for _ in range(2):
            self.to_end(self.start_follower())
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

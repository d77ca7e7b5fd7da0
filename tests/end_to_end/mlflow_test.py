# SPDX-License-Identifier: MIT
"""What MLflow's own server has of a run: all of it, whatever happened to either.

$DDPRUN_PEERS_PYTHON names a Python that mlflow is installed for.
"""

import json
import math
import os
import re
import signal
import unittest

from command import SMALL, CommandTest, all_rows, main
from mlflow_server import MlflowServer

PEERS = os.environ.get("DDPRUN_PEERS_PYTHON")
WORDS = [*SMALL, "model=mlp", "objective.metrics=[accuracy, confusion]", "checkpoint.every=5st",
         "predictions={num_batches_to_log: 1, log_images_per_batch: 6}", "launch.workers=2", "run.dir=run"]
READ_TABLE = """
import json, sys, mlflow
uri, experiment, run, path = sys.argv[1:]
mlflow.set_tracking_uri(uri)
table = mlflow.MlflowClient().load_table(experiment, path, [run])
print(json.dumps({"columns": list(table.columns), "rows": len(table)}))
"""


def logged(run):
    """{(metric, step): value} of metrics.jsonl: the last row of each counts."""
    left_out = ("time", "attempt", "split", "step", "samples", "nonfinite")
    return {(f"{row['split']}/{name}", row["step"]): value for row in all_rows(run, measured=True) for name, value in row.items()
            if name not in left_out and value is not None and (name != "epoch" or row["split"] == "train")}


SERVER = None


def setUpModule():
    global SERVER
    SERVER = MlflowServer(PEERS)
    unittest.addModuleCleanup(SERVER.close)


class MlflowTest(CommandTest):
    """Each test has an experiment of its own on the server."""

    def setUp(self):
        super().setUp()
        self.server = SERVER
        self.experiment = self.id().rpartition(".")[2]
        logger = f"{{plugin: mlflow, uri: '{self.server.uri}', experiment: {self.experiment}, timeout: 20}}"
        self.words = [*WORDS, f"loggers=[jsonl, {logger}]"]
        self.run_folder = self.folder / "run"

    def run_there(self):
        """The only one of the experiment."""
        runs = self.server.runs(self.experiment)
        self.assertEqual(len(runs), 1)
        return runs[0]

    def ddprun_and_upload(self, *arguments):
        """To the end, and what a slow machine's server could not take in time."""
        running = self.ddprun(*arguments)
        self.upload_what_is_left(running, self.run_folder)

    def upload_what_is_left(self, running, run):
        if f"`ddprun upload {run}`" in running.err():
            self.ddprun("upload", run)

    def assert_all_rows_arrived(self, same_values=lambda name: True):
        expected = logged(self.run_folder)
        found = {place: value for place, value in self.server.metrics(self.run_there()).items() if not place[0].startswith("best/")}
        self.assertGreater(len(expected), 20)
        self.assertEqual(found.keys(), expected.keys())
        for (name, step), value in expected.items():
            if same_values(name):
                self.assertTrue(math.isclose(found[name, step], value, rel_tol=1e-12), f"{name} at {step}")

    def status(self):
        return self.run_there()["info"]["status"]

    def tags(self):
        return {tag["key"]: tag["value"] for tag in self.run_there()["data"]["tags"]}

    def params(self):
        return {param["key"]: param["value"] for param in self.run_there()["data"]["params"]}

    def wait_for_metric(self, running, step):
        """The server has a row of this step or a later one."""
        def arrived():
            runs = self.server.runs(self.experiment)
            metrics = runs[0]["data"].get("metrics", []) if runs else []
            return any(int(metric["step"]) >= step for metric in metrics)
        self.wait_until(arrived, f"step {step} on the server", running, seconds=120)


class ALateServer(MlflowTest):  # the first class: a start takes longer than most tests
    def test_one_that_comes_after_the_run_gets_all_by_upload(self):
        self.server.kill()
        running = self.ddprun(*self.words)
        self.assertEqual(running.err().count(f"logger mlflow: {self.server.uri}: "), 1, running.err())
        self.assertIn(f"`ddprun upload {self.run_folder}`", running.err())
        refused = self.ddprun("upload", "run", code=1)
        self.assertIn(self.server.uri, refused.err())
        self.server.start()
        for sent in (True, False):
            told = self.ddprun("upload", "run").out()
            self.assertEqual("mlflow: sent " in told, sent, told)
            self.assertTrue(told.endswith("run: nothing is left to send\n"), told)
            self.assert_all_rows_arrived()
            self.assertEqual(self.status(), "FINISHED")
            self.assertIn("summary.json", self.server.artifacts(self.run_there()))


class MlflowLogger(MlflowTest):
    def setUp(self):
        super().setUp()
        self.server.start()

    def test_a_run_arrives_whole(self):
        self.ddprun_and_upload(*self.words)
        self.assert_all_rows_arrived()
        run = self.run_there()
        self.assertEqual((self.status(), run["info"]["run_name"]), ("FINISHED", "run"))
        self.assertGreater(int(run["info"]["end_time"]), int(run["info"]["start_time"]))
        self.assertEqual(self.params()["optimizer.lr"], "0.01")
        self.assertEqual(self.params()["model.plugin"], "mlp")
        tags = self.tags()
        self.assertEqual((tags["ddprun.world_size"], tags["ddprun.run_dir"]), ("2", str(self.run_folder)))
        self.assertEqual(tags["mlflow.source.name"], "experiments/digits.yaml")
        for name in ("config.yaml", "overrides.txt", "environment.json", "summary.json", "tables.jsonl"):
            self.assertEqual(self.server.artifact(run, name), (self.run_folder / name).read_bytes(), name)
        names = self.server.artifacts(self.run_there())
        self.assertLessEqual({"logs/rank_0.log", "logs/rank_1.log", "tables/val_confusion_step_20.json"}, names.keys())
        self.assertEqual(len([name for name in names if name.startswith("images/val/")]), 6)
        self.assert_a_table_can_be_read(run, "tables/val_predictions_step_20.json")

    def assert_a_table_can_be_read(self, run, path):
        """By MLflow's own client."""
        reader = self.start_program(PEERS, "-c", READ_TABLE, self.server.uri, self.server.experiment(self.experiment),
                                    run["info"]["run_id"], path)
        self.assertEqual(reader.wait(), 0, reader.text())
        columns = ["sample", "image", "truth", "guess", "score"]
        self.assertEqual(json.loads(reader.out()), {"columns": columns, "rows": 6})

    def test_a_server_that_is_killed_and_comes_back_gets_all(self):
        # It has to catch up while the training goes on: at ten steps a second there are no more rows than a busy machine takes.
        running = self.start(*self.words, "trainer.max_epochs=100000", env={"DDPRUN_FAULT": "slow:computing:0"})
        self.wait_for_metric(running, 4)
        self.server.kill()
        self.wait_until(lambda: "the training goes on" in running.err(), "the warning", running)
        step = max(row["step"] for row in all_rows(self.run_folder)) + 2
        self.wait_for_step(running, self.run_folder, step)
        self.server.start()
        self.wait_for_metric(running, step)
        running.send(signal.SIGTERM)
        self.assertEqual(running.wait(), 75, running.text())
        self.upload_what_is_left(running, self.run_folder)
        self.assert_all_rows_arrived()
        self.assertEqual(self.status(), "KILLED")
        self.assertIn("answers again", running.err())

    def test_a_run_that_was_killed_and_resumed_is_one_run(self):
        first = self.start_held(12, *self.words)
        self.wait_for_metric(first, 12)
        first.send(signal.SIGKILL)
        first.wait()
        self.wait_until(lambda: not self.workers(), "the end of the workers")
        self.assertEqual(self.status(), "RUNNING")
        self.ddprun_and_upload("resume", "run", "checkpoint.every=10st")
        self.assert_all_rows_arrived(lambda name: not re.search("system/|per_second|epoch/.*_seconds", name))
        self.assertEqual(self.status(), "FINISHED")
        self.assertEqual((self.tags()["ddprun.attempt"], self.params()["checkpoint.every"]), ("1", "5st"))
        self.assertEqual(self.tags()["ddprun.attempt_1.checkpoint.every"], "10st")

    def test_two_runs_at_once_are_two(self):
        both = [self.start(*self.words, f"run.dir={name}") for name in ("one", "two")]
        for running in both:
            self.assertEqual(running.wait(), 0, running.text())
        for running, name in zip(both, ("one", "two")):
            self.upload_what_is_left(running, self.folder / name)
        runs = self.server.runs(self.experiment)
        self.assertEqual(sorted(run["info"]["run_name"] for run in runs), ["one", "two"])
        self.assertEqual({run["info"]["status"] for run in runs}, {"FINISHED"})

    def test_a_server_that_refuses_says_why_and_nothing_is_lost(self):
        self.server.ask("experiments/create", {"name": self.experiment})
        experiment = self.server.experiment(self.experiment)
        self.server.ask("experiments/delete", {"experiment_id": experiment})
        running = self.ddprun(*self.words)
        self.assertIn(f'the experiment "{self.experiment}" is deleted there', running.err())
        self.server.ask("experiments/restore", {"experiment_id": experiment})
        self.ddprun("upload", "run")
        self.assert_all_rows_arrived()
        self.assertEqual(self.status(), "FINISHED")

    def test_addresses_that_are_no_server_are_refused_before_the_run(self):
        mistakes = {"sqlite:///mlflow.db": "mlflow server", "mlruns": "http://", "": "MLFLOW_TRACKING_URI"}
        for uri, expected in mistakes.items():
            error = self.assert_refused(*SMALL, f"loggers=[{{plugin: mlflow, uri: '{uri}'}}]")
            self.assertIn("loggers[0].uri", error)
            self.assertIn(expected, error)


if __name__ == "__main__":
    main(None if PEERS else "DDPRUN_PEERS_PYTHON names no Python with mlflow (pip install mlflow==3.18.0)")

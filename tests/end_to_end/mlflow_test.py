# SPDX-License-Identifier: MIT
"""What MLflow's own server has of a run that sends itself there: all of it, whatever happened to either, or to the follower.

$DDPRUN_PEERS_PYTHON names a Python that mlflow is installed for.
"""

import json
import math
import os
import pathlib
import re
import shlex
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request

from command import SMALL, CommandTest, all_rows, free_port, main, summary

PEERS = os.environ.get("DDPRUN_PEERS_PYTHON")
if not PEERS:
    main("DDPRUN_PEERS_PYTHON names no Python with mlflow (pip install mlflow==3.18.0)")
os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}

import mlflow  # noqa: E402

WORDS = [*SMALL, "model=mlp", "objective.metrics=[accuracy, confusion]", "checkpoint.every=5st",
         "predictions={num_batches_to_log: 1, log_images_per_batch: 6}", "launch.workers=2", "run.dir=run"]


class MlflowServer:
    """MLflow's own, on loopback, with its database in a folder of its own. Its start takes longer than a run: one serves all tests."""

    def __init__(self):
        self.port, self.running = free_port(), None
        self.uri = f"http://127.0.0.1:{self.port}"
        self.temporary = tempfile.TemporaryDirectory(prefix="ddprun-mlflow-")
        self.folder = pathlib.Path(self.temporary.name)
        self.client = mlflow.MlflowClient(self.uri)

    def start(self):
        """Where it does not run."""
        if self.running:
            return
        with (self.folder / "server.log").open("a") as log:
            self.running = subprocess.Popen(
                [PEERS, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1",
                 "--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db", "--artifacts-destination", self.folder / "artifacts"],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)  # fmt: skip
        deadline = time.monotonic() + 120
        while not self.answers():
            if self.running.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("MLflow's server does not answer:\n" + (self.folder / "server.log").read_text())
            time.sleep(0.05)

    def kill(self):
        """With its workers, as a machine that fails would."""
        if self.running:
            os.killpg(self.running.pid, signal.SIGKILL)
            self.running.wait()
        self.running = None

    def close(self):
        self.kill()
        self.temporary.cleanup()

    def answers(self):
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def experiment(self, name):
        return self.client.get_experiment_by_name(name)

    def runs(self, name):
        experiment = self.experiment(name)
        return list(self.client.search_runs([experiment.experiment_id])) if experiment else []

    def metrics(self, run):
        """{(metric, step): value} of all that was ever logged; each of them once."""
        found = {}
        for name in run.data.metrics:
            for point in self.client.get_metric_history(run.info.run_id, name):
                assert (name, point.step) not in found, f"{name} of step {point.step} came twice"
                found[name, point.step] = point.value
        return found

    def artifacts(self, run, path=None):
        """The paths of all files."""
        found = self.client.list_artifacts(run.info.run_id, path)
        return {name for one in found for name in (self.artifacts(run, one.path) if one.is_dir else {one.path})}


def logged(run):
    """{(metric, step): value} of metrics.jsonl: the last row of each counts."""
    left_out = ("time", "attempt", "split", "step", "samples", "nonfinite")
    return {(f"{row['split']}/{name}", row["step"]): value for row in all_rows(run, measured=True) for name, value in row.items()
            if name not in left_out and value is not None and (name != "epoch" or row["split"] == "train")}


SERVER = None


def setUpModule():
    global SERVER
    SERVER = MlflowServer()
    unittest.addModuleCleanup(SERVER.close)


class MlflowTest(CommandTest):
    """Each test has an experiment of its own on the server."""

    def setUp(self):
        super().setUp()
        self.server = SERVER
        self.experiment = self.id().rpartition(".")[2]
        logger = f"{{plugin: mlflow, uri: '{self.server.uri}', project: {self.experiment}, python: {PEERS}}}"
        self.words = [*WORDS, f"loggers=[jsonl, {logger}]"]
        self.run_folder = self.folder / "run"

    def run_there(self):
        """The only one of the experiment."""
        runs = self.server.runs(self.experiment)
        self.assertEqual(len(runs), 1)
        return runs[0]

    def send_rest(self, running, run, code=0):
        """By the line that the run has printed, where a slow machine's server could not take it all in time."""
        unsent = summary(run).get("unsent", {})
        self.assertEqual("does not have all of the run" in running.err(), "mlflow" in unsent, running.err())
        if not unsent:
            return None
        self.assertIn(unsent["mlflow"]["command"], running.err())
        later = self.start_program(*shlex.split(unsent["mlflow"]["command"]), "--once")
        self.assertEqual(later.wait(), code, later.text())
        return later

    def assert_all_rows_arrived(self, same_values=lambda name: True):
        expected = logged(self.run_folder)
        found = {place: value for place, value in self.server.metrics(self.run_there()).items() if not place[0].startswith("best/")}
        self.assertGreater(len(expected), 20)
        self.assertEqual(found.keys(), expected.keys())
        for (name, step), value in expected.items():
            if same_values(name):
                self.assertTrue(math.isclose(found[name, step], value, rel_tol=1e-12), f"{name} at {step}")

    def status(self):
        return self.run_there().info.status

    def followers(self):
        lines = {pid: pathlib.Path(f"/proc/{pid}/cmdline") for pid in self.processes()}
        return [pid for pid, line in lines.items() if line.exists() and b"--beside" in line.read_bytes()]

    def wait_for_metric(self, running, step):
        """The server has a row of this step or a later one."""

        def arrived():
            points = [place for run in self.server.runs(self.experiment) for place in self.server.metrics(run)]
            return any(reached >= step for _, reached in points)

        self.wait_until(arrived, f"step {step} on the server", running, seconds=600)


class ALateServer(MlflowTest):  # the first class: a start takes longer than most tests
    def test_one_that_comes_after_the_run_gets_all_by_the_line_that_the_run_printed(self):
        self.server.kill()
        running = self.ddprun(*self.words)
        self.assertEqual(running.err().count("not sent: "), 1, running.err())
        self.assertEqual(running.err().count("does not have all of the run"), 1, running.err())
        self.send_rest(running, self.run_folder, code=1)
        self.server.start()
        for reported in ("the run has ended: completed", "there is nothing new"):
            self.assertIn(reported, self.send_rest(running, self.run_folder).err())
            self.assert_all_rows_arrived()
            self.assertEqual(self.status(), "FINISHED")
            self.assertIn("summary.json", self.server.artifacts(self.run_there()))


class MlflowLogger(MlflowTest):
    def setUp(self):
        super().setUp()
        self.server.start()

    def test_a_run_arrives_whole(self):
        self.send_rest(self.ddprun(*self.words), self.run_folder)
        self.assert_all_rows_arrived()
        run = self.run_there()
        self.assertEqual((run.info.status, run.info.run_name), ("FINISHED", "digits/run"))
        end = max(json.loads(line)["time"] for line in (self.run_folder / "events.jsonl").read_text().splitlines())
        self.assertEqual(run.info.end_time, int(end * 1000))
        self.assertLessEqual(run.info.start_time, min(row["time"] for row in all_rows(self.run_folder)) * 1000)
        params, tags = run.data.params, run.data.tags
        self.assertEqual((params["optimizer.lr"], params["model.plugin"]), ("0.01", "mlp"))
        self.assertEqual((tags["ddprun.world_size"], tags["ddprun.run_dir"]), ("2", str(self.run_folder)))
        self.assertEqual((tags["mlflow.source.name"], tags["ddprun.status"]), ("experiments/digits.yaml", "completed"))
        best = {name: value for (name, _), value in self.server.metrics(run).items() if name.startswith("best/")}
        self.assertEqual(best, {f"best/{name}": value for name, value in summary(self.run_folder)["best"].items()})
        for name in ("config.yaml", "overrides.txt", "environment.json", "tables.jsonl"):
            file = pathlib.Path(self.server.client.download_artifacts(run.info.run_id, name, str(self.folder / "tmp")))
            self.assertEqual(file.read_bytes(), (self.run_folder / name).read_bytes(), name)
        names = self.server.artifacts(run)
        self.assertLessEqual({"logs/rank_0.log", "logs/rank_1.log", "tables/val_confusion_step_20.json", "summary.json"}, names)
        self.assertEqual(len([name for name in names if name.startswith("images/val/")]), 6)
        mlflow.set_tracking_uri(self.server.uri)
        table = self.server.client.load_table(run.info.experiment_id, "tables/val_predictions_step_20.json", [run.info.run_id])
        self.assertEqual((list(table.columns)[:5], len(table)), (["id", "image", "guess", "truth", "right"], 6))

    def test_a_server_and_a_follower_that_are_killed_cost_no_row(self):
        # It has to catch up while the training continues: at ten steps a second there are no more rows than a busy machine takes.
        running = self.start(*self.words, "trainer.max_epochs=100000", env={"DDPRUN_FAULT": "slow:computing:0"})
        self.wait_for_metric(running, 4)
        self.server.kill()
        self.wait_until(lambda: "not sent: " in running.err(), "the warning", running)
        (follower,) = self.followers()
        os.kill(follower, signal.SIGKILL)
        self.wait_until(lambda: "it is started again" in running.err(), "the next follower", running)
        step = max(row["step"] for row in all_rows(self.run_folder)) + 2
        self.wait_for_step(running, self.run_folder, step)
        self.server.start()
        self.wait_for_metric(running, step)
        running.send(signal.SIGTERM)
        self.assertEqual(running.wait(), 75, running.text())
        self.send_rest(running, self.run_folder)
        self.assert_all_rows_arrived()
        self.assertEqual(self.status(), "KILLED")

    def test_a_run_that_was_killed_and_resumed_is_one_run(self):
        """First its launcher, which the follower outlives to say so; then all of it, as when the machine dies."""
        first = self.start_held(12, *self.words)
        self.wait_for_metric(first, 12)
        first.send(signal.SIGKILL)
        first.wait()
        self.wait_until(lambda: not self.processes(), "the end of the workers and the follower")
        self.assertEqual(self.status(), "KILLED")
        second = self.start_held(18, "resume", "run", attempt=1)
        self.wait_for_metric(second, 18)
        self.assertEqual(self.status(), "RUNNING")
        self.end_processes()
        second.wait()
        self.assert_nothing_left()
        self.send_rest(self.ddprun("resume", "run", "checkpoint.every=10st"), self.run_folder)
        self.assert_all_rows_arrived(lambda name: not re.search("system/|per_second|epoch/.*_seconds", name))
        self.assertEqual(self.status(), "FINISHED")
        found = self.run_there().data
        self.assertEqual((found.tags["ddprun.attempt"], found.params["checkpoint.every"]), ("2", "5st"))
        self.assertEqual(found.tags["ddprun.attempt_2.checkpoint.every"], "10st")

    def test_a_server_that_refuses_says_why_and_nothing_is_lost(self):
        experiment = self.server.client.create_experiment(self.experiment)
        self.server.client.delete_experiment(experiment)
        running = self.ddprun(*self.words)
        self.assertIn("must be in the 'active' state", running.err())
        self.server.client.restore_experiment(experiment)
        self.send_rest(running, self.run_folder)
        self.assert_all_rows_arrived()
        self.assertEqual(self.status(), "FINISHED")

    def test_what_cannot_work_is_refused_before_the_run(self):
        mistakes = {
            "mlflow, uri: mlruns": "mlflow keeps no runs in mlruns",
            "mlflow": "MLFLOW_TRACKING_URI",
            "mlflow, uri: 'http://me:word@host:1'": "loggers[0].uri: holds a name or a password",
            "mlflow, uri: 'http://host:1', group: a": "--group means nothing to mlflow",
            "wandb": "wandb login",
            "follow, to: mlfow": "did you mean mlflow?",
            "mlflw": "did you mean mlflow?",
        }
        for words, expected in mistakes.items():
            with self.subTest(words):
                self.assertIn(expected, self.assert_refused(*SMALL, f"loggers=[{{plugin: {words}, python: {PEERS}}}]"))
        self.assertIn("mlflow already", self.assert_refused(*SMALL, "loggers=[mlflow, {plugin: follow, to: mlflow}]"))
        error = self.assert_refused(*SMALL, "loggers=[{plugin: mlflow, uri: 'http://host:1', python: no_python}]")
        self.assertIn("no_python", error)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""MLflow's real server, and what it answers."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from command import free_port


class MlflowServer:
    """On loopback, with its database in a folder of its own. Its start takes longer than a run: one serves all tests of a file."""

    def __init__(self, python):
        self.python, self.port, self.running = python, free_port(), None
        self.uri = f"http://127.0.0.1:{self.port}"
        self.temporary = tempfile.TemporaryDirectory(prefix="ddprun-mlflow-")
        self.folder = pathlib.Path(self.temporary.name)

    def start(self):
        """Where it does not run."""
        if self.running:
            return
        with (self.folder / "server.log").open("a") as log:
            self.running = subprocess.Popen(
                [self.python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1",
                 "--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db",
                 "--artifacts-destination", self.folder / "artifacts"],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"})
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

    def ask(self, method, body=None, **query):
        url = f"{self.uri}/api/2.0/mlflow/{method}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, json.dumps(body).encode() if body else None,
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def experiment(self, name):
        return self.ask("experiments/get-by-name", experiment_name=name)["experiment"]["experiment_id"]

    def runs(self, experiment):
        try:
            return self.ask("runs/search", {"experiment_ids": [self.experiment(experiment)]}).get("runs", [])
        except urllib.error.HTTPError:  # no such experiment yet
            return []

    def metrics(self, run):
        """{(metric, step): value} of all that was ever logged; each of them once."""
        found = {}
        for metric in run["data"].get("metrics", []):
            history = self.ask("metrics/get-history", run_id=run["info"]["run_id"], metric_key=metric["key"],
                               max_results=25000)
            for point in history["metrics"]:
                place = (point["key"], int(point["step"]))
                assert place not in found, f"{place} came twice"
                found[place] = float(point["value"])
        return found

    def artifacts(self, run, path=""):
        """{path: size}."""
        found = {}
        listing = self.ask("artifacts/list", run_id=run["info"]["run_id"], path=path)
        for file in listing.get("files", []):
            path = file["path"]
            found |= self.artifacts(run, path) if file.get("is_dir") else {path: int(file.get("file_size", 0))}
        return found

    def artifact(self, run, path):
        place = urllib.parse.urlparse(run["info"]["artifact_uri"]).path
        url = f"{self.uri}/api/2.0/mlflow-artifacts/artifacts{place}/{path}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.read()

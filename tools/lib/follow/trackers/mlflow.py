# SPDX-License-Identifier: MIT
"""MLflow: a server, Databricks, or a database (sqlite:///mlflow.db). Its stores keep a metric's value of a step and time once,
so that what is sent again is not doubled."""

import re

import mlflow
from mlflow.entities import Metric, Param, RunTag

from ddprun.config import flat
from follow.trackers.base import ENDED_WELL, Base

PARAMETERS, METRICS = 100, 1000  # in one request
LONGEST = 6000  # characters of a parameter
LONGEST_NAME = 250


class Tracker(Base):
    takes = ("project", "name", "tags", "uri")
    errors = (mlflow.exceptions.MlflowException, OSError)
    advice = "set MLFLOW_TRACKING_URI, or --uri: http://127.0.0.1:5000, sqlite:///mlflow.db"

    def open(self, header):
        self.client = mlflow.MlflowClient(self.options.uri or header.get("uri"))
        self.waiting = []
        if header:
            self.id = header["id"]
            self.client.update_run(self.id, status="RUNNING")
            return header
        found = self.client.get_experiment_by_name(self.project)
        experiment = found.experiment_id if found else self.client.create_experiment(self.project)
        tags = {"ddprun.run_dir": str(self.run.path)} | {f"ddprun.tag.{tag}": tag for tag in self.options.tags or ()}
        self.id = self.client.create_run(experiment, run_name=self.name, tags=tags).info.run_id
        values = {legal(key): str(value)[:LONGEST] for key, value in flat(self.run.config).items()}
        for some in portions([Param(key, value) for key, value in values.items()], PARAMETERS):
            self.client.log_batch(self.id, params=some)
        return {"id": self.id, "project": self.project, "uri": self.options.uri}

    def send(self, number, item):
        self.waiting += [Metric(legal(name), float(value), item.milliseconds, item.step) for name, value in item.numbers.items()]
        if item.epoch is not None and item.numbers:
            self.waiting.append(Metric("epoch", float(item.epoch), item.milliseconds, item.step))
        for name, (classes, counts) in item.confusions.items():
            rows = [[truth, *row] for truth, row in zip(classes, counts)]
            self.table(name, item.step, ["truth", *classes], rows)
        for name, table in item.tables.items():
            self.table(name, item.step, table.columns, table.plain_rows())
        for name, file in item.pictures():
            self.client.log_artifact(self.id, str(file), f"images/{name.rpartition('/')[0]}")

    def table(self, name, step, columns, rows):
        """Writes what MLflow's own log_table() does, which would need pandas."""
        self.client.log_dict(self.id, {"columns": columns, "data": rows}, f"tables/{name.replace('/', '_')}_step_{step}.json")

    def flush(self):
        for some in portions(self.waiting, METRICS):
            self.client.log_batch(self.id, metrics=some)
        self.waiting = []
        return True

    def finish(self, status, summary):
        for file in self.files():
            self.client.log_artifact(self.id, str(file))
        tags = {"ddprun.status": status, "ddprun.stop_reason": str(summary.get("stop_reason", ""))}
        self.client.log_batch(self.id, tags=[RunTag(key, value) for key, value in tags.items()])
        self.client.set_terminated(self.id, "FINISHED" if status in ENDED_WELL else "KILLED" if status == "killed" else "FAILED")

    def leave(self):
        pass


def legal(name):
    """Returns a name with an underscore for each character that MLflow refuses."""
    return re.sub(r"[^\w\-. :/]", "_", name)[:LONGEST_NAME]


def portions(items, size):
    """Yields the items in lists of at most this size."""
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]

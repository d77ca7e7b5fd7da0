# SPDX-License-Identifier: MIT
"""MLflow: a server, Databricks, or a database (sqlite:///mlflow.db). Its stores keep a metric's value of a step and time once,
so that what is sent again is not doubled."""

import collections
import getpass
import json
import os
import pathlib
import re

os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # the follower tries again itself, for longer
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")

import mlflow  # noqa: E402
from mlflow.entities import Metric, Param, RunTag  # noqa: E402

from ddprun.run_folder import file_in  # noqa: E402
from ddprun.run_list import flat  # noqa: E402
from follow.messages import first_line, say  # noqa: E402
from follow.trackers import ENDED_WELL, KINDS, Base  # noqa: E402

MOST = {"params": 100, "metrics": 1000, "tags": 100}  # in one request
LONGEST = 6000  # characters of a parameter
LONGEST_TAG = 5000
LONGEST_NAME = 250
REFUSALS = (400, 413, 422)  # HTTP
NO_PARAMETERS = ("run", "launch", "resources", "loggers", "plugin_path")  # they say where and when it ran
ARTIFACTS = ("overrides.txt", "environment.json", "run.json", "tables.jsonl", "events.jsonl")  # beside files()
OF_START = ("world_size", "nodes", "device", "parameters")  # in run.json
MOST_TABLES = 50  # in the tag that lists them for MLflow's pages
TABLES_TAG = "mlflow.loggedArtifacts"
ITEMS_TAG = "ddprun.items"  # how many have arrived
SURELY, MOST_WARNINGS = 3, 10  # refusals of a name until it is not tried again; names that are warned of


class Tracker(Base):
    errors = (mlflow.exceptions.MlflowException, OSError)
    advice = KINDS["mlflow"].advice

    # Its run

    def open(self, known):
        self.client = mlflow.MlflowClient(self.options.uri or known.get("uri"))
        self.waiting, self.names, self.refused = [], {}, collections.Counter()
        project = self.options.project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or str(self.run.config.get("name", "ddprun"))
        self.id = known.get("id") or self.find_or_make(project, known["word"])
        self.client.update_run(self.id, status="RUNNING")
        tags = self.client.get_run(self.id).data.tags
        self.listed = [one["path"] for one in json.loads(tags.get(TABLES_TAG, "[]"))]
        self.noted = self.next = int(tags.get(ITEMS_TAG, 0))
        self.log("tags", self.tags())
        self.log_settings()
        return {"id": self.id, "project": project, "uri": self.options.uri}

    def find_or_make(self, project, word):
        """Finds the run that a follower made, and was killed before it could note its id."""
        found = self.client.get_experiment_by_name(project)
        experiment = found.experiment_id if found else self.client.create_experiment(project)
        for run in self.client.search_runs([experiment], f"tags.`ddprun.word` = '{word}'"):
            return run.info.run_id
        tags = {"ddprun.word": word} | {f"ddprun.tag.{tag}": tag for tag in self.options.tags or ()}
        began, name = self.run.started, self.options.name or self.run.name
        milliseconds = int(began.timestamp() * 1000) if began else None
        return self.client.create_run(experiment, start_time=milliseconds, run_name=name, tags=tags).info.run_id

    def log_settings(self):
        """A parameter is written once; what a resumed attempt has changed, which is recorded once it trains, becomes a tag."""
        known = self.client.get_run(self.id).data.params
        config = {key: value for key, value in self.run.config.items() if key not in NO_PARAMETERS}
        values = {legal(key): str(value)[:LONGEST] for key, value in flat(config).items()}
        self.log("params", [Param(key, value) for key, value in values.items() if key not in known])
        changed = {key: value for key, value in values.items() if known.get(key, value) != value}
        self.log("tags", [tag(f"ddprun.attempt_{self.run.attempt}.{key}"[:LONGEST_NAME], value) for key, value in changed.items()])

    def tags(self):
        recorded = self.run.known()
        environment, start = recorded["environment"] or {}, recorded["start"] or {}
        git = environment.get("git")
        words = environment.get("arguments")
        files = [word for word in (words if isinstance(words, list) else ()) if str(word).endswith((".yaml", ".yml"))]
        values = {
            "mlflow.user": user(), "mlflow.source.type": "LOCAL",
            "mlflow.source.name": files[0] if files else recorded["name"],
            "mlflow.source.git.commit": git.get("sha") if isinstance(git, dict) else None,
            "ddprun.run_dir": self.run.path, "ddprun.host": environment.get("host"), "ddprun.attempt": recorded["attempt"],
        } | {f"ddprun.{key}": start.get(key) for key in OF_START}  # fmt: skip
        return [tag(key, value) for key, value in values.items() if value not in (None, "")]

    # Rows

    def arrived(self):
        return self.noted

    def send(self, number, item):
        self.next = number + 1
        numbers = {self.legal(name): value for name, value in item.numbers.items()}
        if item.epoch is not None and any(name.startswith("train/") for name in numbers):
            numbers["train/epoch"] = item.epoch
        self.waiting += [Metric(name, float(value), item.milliseconds, item.step) for name, value in numbers.items()]
        for name, file in item.pictures():
            self.artifact(file.name, lambda: self.client.log_artifact(self.id, str(file), picture_folder(name)))
        for name, (classes, counts) in item.confusions.items():
            rows = [[truth, *row] for truth, row in zip(classes, counts)]
            self.table(name, item.step, ["truth", *classes], rows)
        for name, table in item.tables.items():
            self.table(name, item.step, table.columns, with_pictures(name, table))

    def table(self, name, step, columns, rows):
        """Writes what MLflow's own log_table() does, which would need pandas; its pages show those that a tag lists."""
        path = f"tables/{name.replace('/', '_')}_step_{step}.json"
        self.artifact(path, lambda: self.client.log_dict(self.id, {"columns": columns, "data": rows}, path))
        self.listed = [*(one for one in self.listed if one != path), path][-MOST_TABLES:]
        listed = json.dumps([{"path": one, "type": "table"} for one in self.listed])
        self.log("tags", [RunTag(TABLES_TAG, listed)])

    def flush(self):
        self.log("metrics", self.waiting)
        self.waiting = []
        if self.noted != self.next:
            self.log("tags", [tag(ITEMS_TAG, self.next)])
            self.noted = self.next

    def legal(self, name):
        """Returns a name that MLflow takes; two that become one stay two."""
        if name not in self.names:
            wanted, number = legal(name), 2
            found = wanted
            while found in self.names.values():
                found, number = f"{wanted[: LONGEST_NAME - 5]}_{number}", number + 1
            self.names[name] = found
            if found != name:
                say(f'MLflow takes no metric "{name}": it is logged as "{found}"')
        return self.names[name]

    # What is refused

    def log(self, kind, items):
        wanted = [one for one in items if self.refused[one.key] < SURELY]
        for one in items:
            if self.refused[one.key] >= SURELY:
                self.set_aside(one.key, dict(one), "refused before")
        for begin in range(0, len(wanted), MOST[kind]):
            self.log_some(kind, wanted[begin : begin + MOST[kind]])

    def log_some(self, kind, some):
        try:
            self.client.log_batch(self.id, **{kind: some})
        except mlflow.exceptions.MlflowException as error:
            if not self.is_refused(error):
                raise
            if len(some) == 1:
                return self.set_aside(some[0].key, dict(some[0]), first_line(error))
            half = len(some) // 2
            for part in (some[:half], some[half:]):
                self.log_some(kind, part)

    def is_refused(self, error):
        """Whether it is what was sent, and not an address, a token or a run that somebody has deleted: those are waited for."""
        if error.get_http_status_code() not in REFUSALS:
            return False
        try:
            self.client.set_tag(self.id, "ddprun.attempt", str(self.run.attempt))
        except mlflow.exceptions.MlflowException:
            return False
        return True

    def artifact(self, name, send):
        try:
            send()
        except (ImportError, PermissionError) as error:  # a store that the server does not pass on, and that needs more
            self.set_aside(name, name, first_line(error))
        except mlflow.exceptions.MlflowException as error:
            if not self.is_refused(error):
                raise
            self.set_aside(name, name, first_line(error))

    def set_aside(self, name, item, reason):
        """Keeps what the server refuses in a file, warns of it once, and continues."""
        file = self.run.path / "mlflow/refused.jsonl"
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666), "a") as stream:
            stream.write(json.dumps({"item": item, "reason": reason}, default=str) + "\n")
        self.refused[name] += 1
        if self.refused[name] == 1 and len(self.refused) <= MOST_WARNINGS:
            say(f"MLflow refuses {name}: {reason}; it is kept in {file}, and the rest continues")

    # Its end

    def finish(self, status, summary):
        end = self.end_milliseconds(status)
        for file in [*self.files(), *self.more_files()]:
            folder = file.parent.name if file.parent != self.run.path else None
            self.artifact(file.name, lambda: self.client.log_artifact(self.id, str(file), folder))
        self.log("metrics", self.best(summary, end))
        self.log_settings()
        ending = {"status": status} | {key: summary.get(key) for key in ("stop_reason", "checkpoint")}
        self.log("tags", [*self.tags(), *(tag(f"ddprun.{key}", value) for key, value in ending.items() if value)])
        word = "FINISHED" if status in ENDED_WELL else "KILLED" if status in ("killed", "preempted") else "FAILED"
        self.client.set_terminated(self.id, word, end)

    def best(self, summary, end):
        """Returns the best values, once for each step that the run has ended at."""
        step, best = int(summary.get("steps", 0)), summary.get("best")
        values = {self.legal(f"best/{name}"): value for name, value in (best if isinstance(best, dict) else {}).items()}
        return [
            Metric(name, float("nan" if value is None else value), end, step)
            for name, value in values.items()
            if all(one.step != step for one in self.client.get_metric_history(self.id, name))
        ]

    def more_files(self):
        logs = sorted(f"logs/{file.name}" for file in (self.run.path / "logs").glob("*.log"))
        return [file for name in (*ARTIFACTS, *logs) if (file := file_in(self.run.path, name))]

    def end_milliseconds(self, status):
        """When the run ended by its own clock, however late that is sent: of one that was killed, when it was last heard of.
        None if unknown.
        """
        recorded = self.run.known("metrics")
        ends = [event for event in recorded["events"] if event["kind"] == "end" and status != "killed"]
        lines = ends or [*recorded["events"], *recorded["metrics"]]  # a resumption that was refused later has changed nothing
        times = [line["time"] for line in lines if isinstance(line.get("time"), (int, float))]
        return int(max(times) * 1000) if times else None


def legal(name):
    """Returns a name with an underscore for each character that MLflow refuses, and no step in its path that it would drop."""
    parts = [part if part.strip(".") else "_" * len(part) for part in re.sub(r"[^\w\-. :/]", "_", name).split("/") if part]
    return "/".join(parts)[:LONGEST_NAME] or "_"


def tag(key, value):
    return RunTag(key, str(value)[:LONGEST_TAG])


def user():
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return os.geteuid()


def picture_folder(name):
    return f"images/{name.rpartition('/')[0]}"


def with_pictures(name, table):
    """Returns the rows with MLflow's own cells for pictures."""

    def cell(column, value):
        if not isinstance(value, pathlib.Path):
            return value
        path = f"{picture_folder(f'{name}/{column}/')}/{value.name}"
        return {"type": "image", "filepath": path, "compressed_filepath": path}

    return [[cell(*pair) for pair in zip(table.columns, row)] for row in table.rows]

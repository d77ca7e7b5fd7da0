# SPDX-License-Identifier: MIT
"""What W&B was informed of a run: read from the files that the wandb package itself wrote, where it had no network."""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/lib"), str(ROOT / "sdk/python")]

from follow.trackers.wandb import records  # noqa: E402
from wandb.proto import wandb_internal_pb2 as messages  # noqa: E402


class WandbRun:
    """All sessions of the W&B run in a run's folder, the oldest first."""

    def __init__(self, run):
        self.folders = sorted((run / "wandb").glob("offline-run-*"))
        self.ids, self.history, self.summary, self.config, self.exits, self.artifacts = set(), [], {}, {}, [], []
        self.preempting = False
        for folder in self.folders:
            for record in records(next(folder.glob("run-*.wandb"))):
                self.take(messages.Record.FromString(record))

    def take(self, message):
        kind = message.WhichOneof("record_type")
        if kind == "run":
            self.ids.add(message.run.run_id)
            self.start = message.run
            self.config |= values(message.run.config.update)
        elif kind == "history":
            self.history.append(values(message.history.item))
        elif kind == "summary":
            self.summary |= values(message.summary.update)
        elif kind == "exit":
            self.exits.append(message.exit.exit_code)
        elif kind == "artifact":
            self.artifacts.append(message.artifact)
        elif kind == "preempting":
            self.preempting = True

    def steps(self):
        return [int(row["_step"]) for row in self.history]

    def rows(self, prefix):
        """Those of a split, without what W&B adds and without the prefix of their names."""
        found = [
            {name: value for name, value in row.items() if name.startswith(f"{prefix}/")} | {"step": row["step"]}
            for row in self.history
        ]
        return [row for row in found if len(row) > 1]

    def table(self, path):
        """The JSON of a table, by what a row of the history shows of it."""
        return json.loads(next(file for folder in self.folders for file in (folder / "files").glob(path)).read_text())


def values(items):
    return {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}

# SPDX-License-Identifier: MIT
"""Weights & Biases. It counts the rows of a run's history, so that it can be asked how far it came."""

import os
import pathlib

import wandb

from ddprun.run_list import flat
from follow.messages import say
from follow.trackers import ENDED_WELL, KINDS, Base

INIT_SECONDS = 20  # for a server's answer; the follower tries again

SETTINGS = {  # about this process and machine, which are not the run's
    "console": "off", "disable_code": True, "disable_git": True, "disable_job_creation": True, "quiet": True,
    "init_timeout": INIT_SECONDS, "x_disable_machine_info": True, "x_disable_meta": True, "x_disable_stats": True, "x_save_requirements": False,
}  # fmt: skip

# Of run-ID.wandb, which the wandb package writes for `wandb sync`: a log in LevelDB's format with its messages.
BLOCK = 32768
HEADER = 7  # of the file, and of each piece of a record: checksum (4 bytes), length (2), kind (1)
WHOLE, FIRST, LAST = 1, 2, 4


class Tracker(Base):
    errors = (wandb.errors.Error, OSError)
    advice = KINDS["wandb"].advice

    def open(self, known):
        self.images = has_pillow()
        self.data = os.environ.get("WANDB_DATA_DIR") or str(self.run.path / "wandb/data")  # pictures, until they are sent
        self.id = known["word"]
        self.sink = self.begin(known)
        self.sink.define_metric("step")
        self.sink.define_metric("*", step_metric="step")
        for name in ("epoch", "samples", "attempt"):
            self.sink.define_metric(name, hidden=True)
        return {"id": self.id, "name": self.sink.name, "project": self.sink.project, "entity": self.sink.entity}

    def begin(self, known):
        options, environment = self.options, os.environ
        default = {
            "WANDB_PROJECT": known.get("project") or str(self.run.config.get("name", "ddprun")),
            "WANDB_ENTITY": known.get("entity"),
            "WANDB_NAME": known.get("name", self.run.name),
        }
        project, entity, name = (None if variable in environment else value for variable, value in default.items())
        offline = options.offline or environment.get("WANDB_MODE") == "offline"
        settings = {key: value for key, value in SETTINGS.items() if key in wandb.Settings.model_fields}
        return wandb.init(
            dir=str(self.run.path), id=self.id, resume=None if offline else "allow", reinit="create_new",
            mode="offline" if offline else None, project=options.project or project, entity=options.entity or entity,
            name=options.name or name, group=options.group, tags=options.tags, config=self.run.config,
            settings=wandb.Settings(**settings))  # fmt: skip

    def arrived(self):
        return next_step(self.run.path / "wandb", self.id) if self.sink.offline else self.sink.starting_step

    def send(self, number, item):
        os.environ["WANDB_DATA_DIR"] = self.data
        row = item.place | ({} if item.time is None else {"_timestamp": item.time}) | item.numbers
        for name, (classes, counts) in item.confusions.items():
            row[name] = confusion(name, classes, counts)
        for name, table in item.tables.items():
            row[name] = wandb.Table(columns=table.columns, data=[[self.cell(cell) for cell in cells] for cells in table.rows])
        for name, histogram in item.histograms.items():
            row[name] = wandb.Histogram(np_histogram=histogram)
        self.sink.log(row, step=number, commit=True)

    def cell(self, value):
        if isinstance(value, pathlib.Path):
            return wandb.Image(str(value)) if self.images else None
        return value

    def finish(self, status, summary):
        ending = {key: value for key, value in summary.items() if key not in ("metrics", "history")}  # which are rows already
        self.sink.summary.update(flat({"status": status} | ending))
        if self.options.model:
            artifact = wandb.Artifact(f"run-{self.id}", type="model")
            for file in self.files():
                artifact.add_file(str(file))
            self.sink.log_artifact(artifact)
        if status == "preempted":
            self.sink.mark_preempting()
        self.sink.finish(exit_code=0 if status in ENDED_WELL else 1)

    def leave(self):
        self.sink.finish(exit_code=0)


def confusion(name, classes, counts):
    """Makes the chart of wandb.plot.confusion_matrix from counts."""
    rows = [[truth, guess, count] for truth, row in zip(classes, counts) for guess, count in zip(classes, row)]
    columns = ["Actual", "Predicted", "nPredictions"]
    return wandb.plot_table(
        vega_spec_name="wandb/confusion_matrix/v1", data_table=wandb.Table(columns=columns, data=rows),
        fields={name: name for name in columns}, string_fields={"title": name.replace("/", ": ")})  # fmt: skip


def has_pillow():
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        say("pictures are left out, for Pillow is missing (pip install pillow)")
        return False
    return True


def records(file):
    """Returns the bytes of each complete record of run-ID.wandb; a torn end is skipped."""
    data = file.read_bytes()
    at, record = HEADER, b""
    while at + HEADER <= len(data):
        left = BLOCK - at % BLOCK
        if left < HEADER:  # filled up with zeros
            at += left
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        piece = data[at + HEADER : at + HEADER + length]
        if kind == 0 or len(piece) < length:
            return
        at += HEADER + length
        record = piece if kind in (WHOLE, FIRST) else record + piece
        if kind in (WHOLE, LAST):
            yield record


def next_step(folder, run_id):
    """Returns the first step that none of the W&B run's files below `folder` has: a kill loses what wandb had not written."""
    from wandb.proto import wandb_internal_pb2

    step = 0
    for file in folder.glob(f"*run-*/run-{run_id}.wandb"):
        for record in records(file):
            message = wandb_internal_pb2.Record.FromString(record)
            if message.HasField("history"):
                step = max(step, message.history.step.num + 1)
    return step

# SPDX-License-Identifier: MIT
"""A run as the program knows it: what `ddprun report --json` says of its folder."""

import csv
import datetime
import difflib
import html
import json
import os
import pathlib
import re
import tempfile
import warnings

import ddprun
from ddprun.errors import UserError
from ddprun.overrides import override_words
from ddprun.program import answer, say_and_run
from ddprun.rows import Rows, metric_names, number, table_row
from ddprun.terminal import printable
from ddprun.weights import read_weights

SPLITS = ("train", "epoch", "val", "test", "system")
FRAME = "width:100%;height:640px;border:1px solid #8886;border-radius:6px"


def run(path):
    """Returns the run in a folder: ddprun.run("outputs/mnist/latest"). It may be in progress, and is read again by each call."""
    found = Run(path)
    known = found.known()
    if known["status"] == "elsewhere":
        raise UserError(f"{path}: {known['stop_reason']}")
    config_of(known)  # report a broken one here, not when it is first needed
    if version_of(recorded_version(known)) > version_of(ddprun.__version__):
        text = f"{found.path} was written by ddprun {recorded_version(known)}, and this reads what {ddprun.__version__} writes"
        warnings.warn(printable(f"{text}: what is new in it is skipped"), stacklevel=2)
    return found


def known_of(runs, rows=None):
    """Returns what the program knows of each run now, with `rows` also its "metrics" or "predictions"."""
    words = [*(["--rows", rows] if rows else []), *runs]
    return json.loads(answer("report", "--json", *words)) if runs else []


class Run:
    """A run folder of ddprun. Files that are not there yet count as empty."""

    def __init__(self, path):
        self.path = pathlib.Path(path).resolve()

    def known(self, rows=None):
        """Returns what known_of() does of a run that can be read."""
        [known] = known_of([self], rows)
        if known["status"] == "unreadable":
            raise UserError(known["stop_reason"])
        return known

    # What it is

    @property
    def config(self):
        """The experiment with all its overrides, as dictionaries and lists."""
        return config_of(self.known())

    @property
    def name(self):
        """Its name below outputs/: mnist/2026-11-20_12-00-00."""
        return f"{self.known()['name']}/{self.path.name}"

    @property
    def version(self):
        """The version of the ddprun that wrote it; empty if unknown."""
        return recorded_version(self.known())

    @property
    def overrides(self):
        """The overrides on its command line."""
        return self.known()["overrides"]

    @property
    def started(self):
        """When its first attempt began; None if unknown."""
        seconds = self.known()["started"]
        return datetime.datetime.fromtimestamp(seconds).astimezone() if seconds else None

    # How it stands

    @property
    def summary(self):
        """summary.json of the attempt that counts; empty until that has ended."""
        return self.known()["summary"] or {}

    @property
    def best(self):
        """What it measured at its best evaluation so far, by name, the metric that chooses it first (checkpoint.monitor), in
        the end with the test of that checkpoint; empty before the first evaluation.
        """
        return {name: number(value) for name, value in self.known()["best"].items()}

    @property
    def status(self):
        """What `ddprun list` says: as in its summary; "running"; "interrupted": it ended abnormally; "elsewhere": another node
        keeps it; "unreadable": its files are not read, and `summary` and the others say why.
        """
        return known_of([self])[0]["status"]

    @property
    def attempt(self):
        """The number of the attempt that the run's state is that of, from 0. While it is held, the newest; afterwards the newest
        that trained: one that was refused has changed nothing.
        """
        return self.known()["attempt"]

    # What it measured

    def metrics(self, split=None):
        """Returns what it measured so far, a row each; of one split ("train", "epoch" for its means, "val", "test",
        "system"), or of all but "system".
        """
        rows = self.known("metrics")["metrics"]
        known = sorted({*SPLITS, *(row["split"] for row in rows)})
        if split is not None and split not in known:
            raise UserError(f'metrics("{split}"): there is no such split;{near(split, known)}')
        return Rows(table_row(row) for row in rows if row["split"] == split or split is None and row["split"] != "system")

    def history(self, metric):
        """Returns the values of "val/accuracy", in the order in which they were measured: the second half of its curve."""
        return self.curve(metric)[1]

    def curve(self, metric, x="step"):
        """Returns ([x...], [y...]) of "val/accuracy", over "step", "epoch", "samples" or "time" (seconds since its first row)."""
        if x not in ("step", "epoch", "samples", "time"):
            raise UserError(f'curve(x="{x}"): must be step, epoch, samples or time')
        known = self.known("metrics")
        rows = known["metrics"]
        steps_per_epoch = (known["start"] or {}).get("steps_per_epoch")

        def place(row):
            if x == "epoch" and steps_per_epoch:
                return row["step"] / steps_per_epoch
            return row["time"] - rows[0]["time"] if x == "time" else row[x]

        split, _, name = metric.partition("/")
        points = [(place(row), number(row[name])) for row in rows if row["split"] == split and name in metric_names(row)]
        if not points:
            measured = sorted({f"{row['split']}/{name}" for row in rows for name in metric_names(row)})
            why = "" if measured else ", for its metrics.jsonl is empty or not there (loggers: [jsonl])"
            raise UserError(f"{self.path}: there is no metric {metric};{near(metric, measured)}{why}")
        return tuple(map(list, zip(*points)))

    def predictions(self, split=None, step=None):
        """Returns the samples that it logged, a row each: truth, guess, scores, and the image's file; the newest of each
        split.
        """
        tables = self.known("predictions")["predictions"]
        if not tables:
            raise UserError(
                f"{self.path} has logged no predictions: `predictions={{num_batches_to_log: 1}}` does, with the logger jsonl"
            )
        chosen = {}
        for table in tables:
            if split in (None, table["split"]) and step in (None, table["step"]):
                chosen[table["split"]] = table
        if not chosen:
            logged = ", ".join(f"{table['split']} at step {table['step']}" for table in tables)
            raise UserError(f"{self.path} has no such predictions, but those of {logged}")
        return Rows(self._prediction(table, row) for table in chosen.values() for row in table.get("rows", []))

    def _prediction(self, table, row):
        names, named = table.get("classes") or [], {}
        for key in ("truth", "guess"):
            if isinstance(row.get(key), int) and 0 <= row[key] < len(names):
                named[f"{key}_name"] = names[row[key]]
        files = {key: file_in(self.path, row[key]) for key in ("image", "output") if isinstance(row.get(key), str)}
        images = {key: str(file) if file else None for key, file in files.items()}
        return {"split": table["split"], "step": table["step"], **row, **named, **images}

    # What it learned

    def checkpoints(self):
        """Returns {step: folder} of the whole ones, the oldest first."""
        return {one["step"]: folder for one, folder in self._checkpoints()}

    def _checkpoints(self, known=None):
        known = known or self.known()
        return [(one, self.path / "checkpoints" / one["name"]) for one in known["checkpoints"] if one["saved"]]

    def weights(self, which="best", *, only_trainable=False):
        """Returns the tensors by name, of the checkpoint "best", "last" or of a step: torch's if torch is installed,
        otherwise numpy's. Of one that was saved with checkpoint.only_trainable there is only what it holds, and only
        where `only_trainable` asks for that.
        """
        for tried in range(3):  # a run that continues removes its older checkpoints
            folder = self.checkpoint(which)
            manifest, file = (file_in(folder, name) for name in ("manifest.json", "model.safetensors"))
            try:
                if manifest and '"left_out":' in manifest.read_text() and not only_trainable:
                    raise UserError(
                        f"{folder} holds only what trains (checkpoint.only_trainable): run.export(FILE, {which!r}) writes all weights,"
                        f" and run.weights({which!r}, only_trainable=True) has those that train"
                    )
                if file:
                    return read_weights(file)
            except FileNotFoundError:
                continue
        raise UserError(f"{folder}: there is no model.safetensors in it")

    def checkpoint(self, which):
        """Returns the folder of the checkpoint "best", "last" or of a step."""
        is_step = isinstance(which, int) and not isinstance(which, bool)
        if not is_step and which not in ("best", "last"):
            raise UserError(f'weights({which!r}): must be "best", "last" or a step')
        known = self.known()
        whole = self._checkpoints(known)
        for one, folder in whole:
            if one["step"] == which if is_step else one[which]:
                return folder
        if whole:
            steps = ", ".join(str(one["step"]) for one, _ in whole)
            raise UserError(f"{self.path} has no checkpoint {'step ' * is_step}{which}; there are: step {steps}")
        yet = " yet" if known["status"] == "running" else ""
        raise UserError(f"{self.path} has no checkpoint{yet} (checkpoint.every says when there is one)")

    def export(self, path, checkpoint=None, *, raw=False, force=False, only_trainable=False):
        """Writes the weights, or with .ts, .pt2 or .onnx the network, of the checkpoint "best", "last" or of a step to a file,
        as `ddprun export` does, and returns its path. `force` replaces a file that is there; `only_trainable` leaves out
        the weights that never train.
        """
        flags = [*(["--raw"] if raw else []), *(["--force"] if force else []), *(["--only-trainable"] if only_trainable else [])]
        say_and_run("export", self.path, *self._named(checkpoint), *flags, "--out", path)
        return pathlib.Path(path)

    def predict(self, split=None, *, input=None, checkpoint=None, out=None, overrides=None):
        """Returns a row for each sample of a split ("test" by default), or of the files in `input` (one, or a list; patterns
        too), as `ddprun predict` writes them. `out` keeps that CSV file.
        """
        inputs = [input] if isinstance(input, (str, os.PathLike)) else list(input or [])
        if input is not None and not inputs:
            raise UserError("predict(input=[]): there are no files")
        words = [*self._named(checkpoint), *override_words(overrides), *(["--split", split] if split else [])]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(out or pathlib.Path(folder) / "predictions.csv")
            say_and_run("predict", self.path, *words, *(["--input", *inputs] if inputs else []), "--out", file)
            with open(file, newline="", encoding="utf-8") as lines:
                return Rows({name: typed_cell(text) for name, text in row.items()} for row in csv.DictReader(lines))

    def _named(self, checkpoint):
        """Returns the words that name a checkpoint; without, the command takes its own default."""
        return [] if checkpoint is None else [self.checkpoint(checkpoint).name]

    # How it is shown

    def __fspath__(self):
        return os.fspath(self.path)

    def __repr__(self):
        return printable(f'<ddprun.Run "{self.path}": {self.status}>')

    def _repr_html_(self):
        """Returns a line about it, and its report in a frame, whose scripts reach nothing of the notebook."""
        try:
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "report.html"
                answer("report", self, "--out", file)
                page = html.escape(file.read_text())
            line = html.escape(repr(self))
        except UserError as error:
            return f"<div>{html.escape(str(error))}</div>"
        return f'<div>{line}</div><iframe sandbox="allow-scripts" style="{FRAME}" srcdoc="{page}"></iframe>'


def file_in(folder, name):
    """Returns a file of a run's folder; None if there is none of that name, or a link or a way up leads to it."""
    file, whole = folder / name, folder.resolve() / name
    is_below = whole.is_relative_to(folder.resolve()) and ".." not in pathlib.PurePath(name).parts
    return file if is_below and file.is_file() and file.resolve() == whole else None


def config_of(known):
    if not isinstance(known["config"], dict):
        raise UserError(next(iter(known["problems"]), f"{known['path']}/config.yaml: this is no experiment"))
    return known["config"]


def recorded_version(known):
    versions = (known["environment"] or {}).get("versions")
    return str(versions.get("ddprun", "")) if isinstance(versions, dict) else ""


def typed_cell(text):
    """Returns a cell of a CSV file as the number that it is, or as its text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def version_of(text):
    return tuple(map(int, re.findall(r"\d+", text)[:2]))


def near(word, known):
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.4)
    hint = f" did you mean {found[0]}?" if found else ""
    return f"{hint} known: {', '.join(known) or 'none'}"

# SPDX-License-Identifier: MIT
import csv
import datetime
import difflib
import functools
import json
import os
import pathlib
import re
import socket
import tempfile
import warnings

import ddprun
from ddprun.config import read_config
from ddprun.curves import Curves, best_of, goal_of
from ddprun.errors import UserError
from ddprun.files_below import open_below, read_below, regular_below, text_below
from ddprun.lock import is_held, owner
from ddprun.overrides import override_words
from ddprun.program import say_and_run
from ddprun.rows import Rows, number, read_lines, standing_rows, table_row
from ddprun.terminal import printable
from ddprun.weights import read_weights

STATUSES = ("completed", "stopped_early", "preempted", "failed", "running", "interrupted", "elsewhere")  # as the program knows them
SPLITS = ("train", "epoch", "val", "test", "system")
SHOWN_FILES = ("config.yaml", "overrides.txt", ".attempts", "environment.json", "environment.attempt_0.json")  # by `ddprun list`


def run(path):
    """Returns the run in a folder: ddprun.run("outputs/mnist/latest"). It may be in progress, and is read again by each call."""
    found = Run(path)
    if place := found.kept_elsewhere():
        raise UserError(printable(f"{path} has only this node's logs of a run that is kept at {place}"))
    found.config  # report a broken one here, not when it is first needed
    if version_of(found.version) > version_of(ddprun.__version__):
        told = (
            f"{found.path} was written by ddprun {found.version}, and this reads what {ddprun.__version__} writes: what is new "
            "in it is skipped"
        )
        warnings.warn(printable(told), stacklevel=2)
    return found


class Run:
    """A run folder of ddprun. Files that are not there yet count as empty."""

    def __init__(self, path):
        path = pathlib.Path(path)
        self.path = path.resolve()
        if not self.path.is_dir():
            raise UserError(f"{path}: no such run{self._near(path)}")
        if path.name == "latest" and path.is_symlink() and self.path.parent != path.parent.resolve():
            raise UserError(
                f"{path} leads to {self.path}, and ddprun makes it a link to a folder beside it: name the folder itself, if that"
                " is the run you mean"
            )
        if not os.path.lexists(self.path / "config.yaml"):
            raise UserError(f"{path} is not a run folder: it has no config.yaml{self._hint()}")

    @staticmethod
    def _near(path):
        beside = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        found = difflib.get_close_matches(path.name, beside, n=1)
        return f"; did you mean {path.parent / found[0]}?" if found else ""

    def _hint(self):
        if self.is_held():
            return " yet: its ddprun has just started; ask again in a moment"
        inside = sorted(file.parent for file in self.path.glob("*/config.yaml"))
        return f"; did you mean {inside[-1]}?" if inside else ""

    # What it is

    @functools.cached_property
    def config(self):
        """The experiment with all its overrides, as dictionaries and lists."""
        try:
            return read_config(self.path / "config.yaml")
        except UserError as error:
            other = self.version not in ("", ddprun.__version__)
            told = f" It was written by ddprun {self.version}; this reads what {ddprun.__version__} writes." if other else ""
            raise UserError(f"{error}{told}") from None

    @property
    def name(self):
        """Its name below outputs/: mnist/2026-11-20_12-00-00."""
        return f"{self.config.get('name', 'run')}/{self.path.name}"

    @property
    def version(self):
        """The version of the ddprun that wrote it; empty if unknown."""
        versions = read_object(self.path / "environment.json").get("versions")
        return str(versions.get("ddprun", "")) if isinstance(versions, dict) else ""

    @property
    def overrides(self):
        """The overrides on its command line."""
        return (text_below(self.path, "overrides.txt") or "").splitlines()

    @property
    def started(self):
        """When its first attempt began; None if unknown."""
        for name in ("environment.attempt_0.json", "environment.json"):
            try:
                return datetime.datetime.strptime(read_object(self.path / name)["time"], "%Y-%m-%dT%H:%M:%S%z")
            except (KeyError, TypeError, ValueError):
                continue
        return None

    # How it stands

    @property
    def summary(self):
        """summary.json of the attempt that counts; empty until that has ended."""
        summary = read_object(self.path / "summary.json")
        if summary.get("status") not in STATUSES and read_below(self.path, "summary.json"):
            raise UserError(f"{self.path / 'summary.json'}: expected an object with the status of a run; is it damaged?")
        attempt = summary.get("attempt")
        return {} if isinstance(attempt, int) and attempt < (self.attempt or 0) else summary

    @property
    def best(self):
        """What it measured at its best evaluation so far, by name, the metric that chooses it first (checkpoint.monitor), in
        the end with the test of that checkpoint; empty before the first evaluation.
        """
        if self.summary:
            return {name: number(value) for name, value in (self.summary.get("best") or {}).items()}
        rows, (metric, maximize) = self.rows(), goal_of(self.config)
        return best_of(rows, metric, maximize) or best_of(rows, "val/loss", False)

    @property
    def status(self):
        """What `ddprun list` says: as in its summary; "running"; "interrupted": it ended abnormally; "elsewhere": another node
        keeps it; "unreadable": its files are not read, and `summary` and the others say why.
        """
        try:
            for name in SHOWN_FILES:
                read_below(self.path, name)
            held = self.is_held()  # checked first: a run that ends meanwhile has its summary by then
            summary = self.summary
            if self.kept_elsewhere():
                return "elsewhere"
            if not summary and (rows := open_below(self.path, "metrics.jsonl")):
                rows.close()
            return summary.get("status") or ("running" if held else "interrupted")
        except UserError:
            return "unreadable"

    @property
    def attempt(self):
        """The number of the attempt that the run's state is that of, from 0; None if unknown. While it is held, the newest;
        afterwards the newest that trained: one that was refused has changed nothing.
        """
        recorded = read_object(self.path / "environment.json").get("attempt")
        if not self.is_held() and isinstance(recorded, int):
            return recorded
        try:
            return max(int(text_below(self.path, ".attempts") or "") - 1, 0)
        except ValueError:
            return None

    def kept_elsewhere(self):
        """"node1:/scratch/run" where this is what one node of several has of a run that the first one keeps; else None."""
        text = text_below(self.path, "kept_elsewhere.txt")
        return text and text.partition("\n")[0]

    def is_held(self):
        """Whether a ddprun holds the folder's lock; None if unknown, as on some network file systems."""
        return is_held(self.path / ".lock")

    def was_started_here(self):
        """Whether it was last locked on this machine, whose locks are visible."""
        found = owner(self.path / ".lock")
        return found is not None and found[1] == socket.gethostname()

    # What it measured

    def rows(self):
        """The rows of metrics.jsonl that count, unchanged."""
        rows = read_lines(self.path / "metrics.jsonl")[0]
        return standing_rows([row for row in rows if "split" in row and "step" in row])

    def metrics(self, split=None):
        """Returns what it measured so far, a row each; of one split ("train", "epoch" for its means, "val", "test",
        "system"), or of all but "system".
        """
        rows = self.rows()
        known = sorted({*SPLITS, *(row["split"] for row in rows)})
        if split is not None and split not in known:
            raise UserError(f'metrics("{split}"): there is no such split;{near(split, known)}')
        return Rows(table_row(row) for row in rows if row["split"] == split or split is None and row["split"] != "system")

    def history(self, metric):
        """Returns the values of "val/accuracy", in the order in which they were measured: the second half of its curve."""
        return self.curve(metric)[1]

    def curve(self, metric, x="step"):
        """Returns ([x...], [y...]) of "val/accuracy", over "step", "epoch", "samples" or "time" (the seconds that it
        trained).
        """
        if x not in ("step", "epoch", "samples", "time"):
            raise UserError(f'curve(x="{x}"): must be step, epoch, samples or time')
        return Curves(self).curve(metric, x)

    def predictions(self, split=None, step=None):
        """Returns the samples that it logged, a row each: truth, guess, scores, and the image's file; the newest of each
        split.
        """
        tables = standing_rows(read_lines(self.path / "tables.jsonl")[0], ("kind", "split"))
        tables = [table for table in tables if table.get("kind") == "predictions"]
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
        images = {key: regular_below(self.path, row[key]) for key in ("image", "output") if row.get(key)}
        images = {key: str(file) if file else None for key, file in images.items()}
        return {"split": table["split"], "step": table["step"], **row, **named, **images}

    # What it learned

    def checkpoints(self):
        """Returns {step: folder} of the whole ones, the oldest first."""
        found = {}
        for folder in (self.path / "checkpoints").glob("step_*"):
            if re.fullmatch(r"step_\d+", folder.name) and not folder.is_symlink() and regular_below(folder, "manifest.json"):
                found[int(folder.name[5:])] = folder
        return dict(sorted(found.items()))

    def weights(self, which="best", *, only_trainable=False):
        """Returns the tensors by name, of the checkpoint "best", "last" or of a step: torch's if torch is installed,
        otherwise numpy's. Of one that was saved with checkpoint.only_trainable there is only what it holds, and only
        where `only_trainable` asks for that.
        """
        for tried in range(3):  # a run that continues removes its older checkpoints
            folder = self.checkpoint(which)
            if not only_trainable and read_object(folder / "manifest.json").get("left_out"):
                raise UserError(
                    f"{folder} holds only what trains (checkpoint.only_trainable): run.export(FILE, {which!r}) writes all weights, and"
                    f" run.weights({which!r}, only_trainable=True) has those that train"
                )
            try:
                return read_weights(folder / "model.safetensors")
            except FileNotFoundError:
                continue
        raise UserError(f"{folder}: there is no model.safetensors in it")

    def checkpoint(self, which):
        """Returns the folder of the checkpoint "best", "last" or of a step."""
        steps = self.checkpoints()
        if which in ("best", "last"):
            link = self.path / "checkpoints" / which
            if link.is_symlink() or link.is_dir():
                found = link.resolve()
                return found if found.parent == link.parent.resolve() else self._refuse_link(link)
        elif not isinstance(which, int) or isinstance(which, bool):
            raise UserError(f'weights({which!r}): must be "best", "last" or a step')
        elif which in steps:
            return steps[which]
        what = f"step {which}" if isinstance(which, int) else which
        if steps:
            raise UserError(f"{self.path} has no checkpoint {what}; there are: step {', '.join(map(str, steps))}")
        yet = " yet" if self.status == "running" else ""
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

    def _refuse_link(self, link):
        raise UserError(f"{link} leads to {link.resolve()}, and ddprun makes it a link to a checkpoint beside it")

    # How it is shown

    def __fspath__(self):
        return os.fspath(self.path)

    def __repr__(self):
        return printable(f'<ddprun.Run "{self.path}": {self.status}>')

    def _repr_html_(self):
        from ddprun.notebook import run_html

        return run_html(self)


def read_object(file):
    """Returns the object in a JSON file; empty if it is missing or broken."""
    try:
        value = json.loads(read_below(file.parent, file.name) or b"")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


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
    return f"{hint} known: {', '.join(known)}"

# SPDX-License-Identifier: MIT
"""A trial as a run of ddprun: starts, follows and stops it, and gives the study what it measured and how it ended."""

import contextlib
import fcntl
import math
import os
import shutil
import signal
import socket

import optuna
from optuna.trial import TrialState as State

from ddprun import Run
from ddprun.lock import is_held, owner
from ddprun.rows import metric_names, number
from sweep.space import override_words
from sweep.study import PRUNING, REASON, run_path
from tooling.durable import sync, sync_folder
from tooling.rows import read_lines, standing_rows

ENDED_WELL = ("completed", "stopped_early")
SIGNALLED = (75, 128 + signal.SIGTERM, -signal.SIGTERM)  # saved first; or it had not begun yet
LONGEST_REASON = 2000  # letters


class TrialRun:
    """The run of a trial, started by this process or by a dead one.

    ddprun writes its console to logs/trial_0007.log. That file is locked before ddprun starts and stays locked while
    it lives, whatever happens to us: the lock belongs to the open file that it inherits.
    """

    def __init__(self, path, metric):
        self.path, self.log = path, path.parent / "logs" / f"{path.name}.log"
        self.split, _, self.metric = metric.name.partition("/")
        self.child = None  # a process of ours
        self.rows, self.read_to = [], 0
        self.measured = []  # the metric in those of them that count
        self.stopped = False

    def start(self, program, words, environment):
        self.log.parent.mkdir(exist_ok=True)
        with open(self.log, "ab") as log, open(os.devnull, "rb") as nothing:
            fcntl.flock(log, fcntl.LOCK_EX)
            streams = [nothing.fileno(), log.fileno(), log.fileno()]
            self.child = program.server.start(words, environment=environment, streams=streams, new_session=True)
        self.stopped = False

    def is_alive(self):
        if self.child:
            return self.child.poll() is None
        return bool(is_held(self.log)) or bool(is_held(self.path / ".lock"))

    def has_begun(self):
        """Returns whether there is a run to resume. A start that was killed at once leaves none."""
        return (self.path / "config.yaml").is_file() and (self.path / "logs").is_dir()

    def stop(self):
        """Stops it by SIGTERM, sent once: it saves and ends. Called again until it could be sent."""
        if self.stopped or not self.is_alive():
            return
        if self.child:
            self.child.terminate()
            self.stopped = True
        elif (found := owner(self.path / ".lock")) and is_held(self.path / ".lock") and found[1] == socket.gethostname():
            with contextlib.suppress(ProcessLookupError):
                os.kill(found[0], signal.SIGTERM)
            self.stopped = True

    def exit_code(self):
        """Returns None if it is not our child's."""
        return self.child.poll() if self.child else None

    def values(self):
        """Returns the values of the metric so far, one for each iteration; NaN if it was not finite."""
        rows, self.read_to = read_lines(self.path / "metrics.jsonl", self.read_to)
        if rows:
            known = len(self.measured)
            self.rows += [row for row in rows if row.get("split") != "system"]
            self.measured = [number(row[self.metric]) for row in standing_rows(self.rows)
                             if row.get("split") == self.split and self.metric in row]  # fmt: skip
            if len(self.measured) > known:
                self.sync_rows()
        return self.measured

    def sync_rows(self):
        """Puts rows on the disk before the study has them: one lost in a power cut would not come again, and
        those after it would count for other iterations. ddprun takes care of its other files.
        """
        sync(self.path / "metrics.jsonl")
        for folder in (self.path, self.path.parent):
            sync_folder(folder)

    def summary(self):
        """Returns the summary of its newest attempt; empty if that wrote none."""
        return Run(self.path).summary if self.has_begun() else {}

    def failure(self):
        """Returns why it failed, in one line."""
        summary, code = self.summary(), self.exit_code()
        errors = [line for line in tail(self.log) if "error: " in line]
        if summary.get("status") == "failed" and summary.get("stop_reason"):
            text = summary["stop_reason"]
        elif errors:
            text = errors[-1].partition("error: ")[2]
        else:
            text = f"killed by {signal.Signals(-code).name}" if code and code < 0 else f"ended with {code}; see {self.log}"
        line = " ".join(str(text).split())
        return line if len(line) <= LONGEST_REASON else line[:LONGEST_REASON] + " ..., whole in the run's summary.json or log"


def tail(file):
    try:
        with open(file, "rb") as stream:
            stream.seek(max(stream.seek(0, os.SEEK_END) - 20_000, 0))
            return stream.read().decode(errors="replace").splitlines()
    except OSError:
        return []


class ActiveTrial:
    """A trial of this process and its run. Every step may be cut off, and has the same effect when it is repeated: by
    this process, or by the one that takes the trial over.
    """

    def __init__(self, study, trial, slot):
        self.study, self.trial, self.slot = study, trial, slot
        self.metric = study.sweep.metric
        self.run = TrialRun(run_path(trial), self.metric)
        self.name = self.run.path.name
        self.reported = len(trial.intermediate_values)
        self.pruning = PRUNING in trial.user_attrs
        self.is_lost = False  # to another process
        self.has_no_metric = False  # found when it has ended: then no trial has

    def must_be_started(self):
        """Returns whether the run neither continues nor has ended."""
        status = self.run.summary().get("status")
        return not self.run.is_alive() and (status is None or status == "preempted" and not self.pruning)

    def start(self, program, words):
        """Resumes its run, if there is one."""
        if self.run.has_begun():
            words = ["resume", self.run.path]
        else:
            shutil.rmtree(self.run.path, ignore_errors=True)  # torn: ddprun makes the folder itself
            own = override_words(self.trial.params)
            words = [self.study.sweep.experiment, *words, *own, f"run.dir={self.run.path}"]
        if self.slot.gpus is not None:
            self.study.note(self.trial, gpus=self.slot.gpus)
        self.run.start(program, list(map(str, words)), self.slot.environment())

    def follow(self):
        """Reports news to the study. Returns True if the run has ended."""
        ended = not self.run.is_alive()  # asked first: what it wrote last must count
        try:
            self.report(self.run.values(), ended)
        except optuna.exceptions.UpdateFinishedTrialError:
            self.is_lost = True
        if self.pruning or self.is_lost:
            self.run.stop()
        return ended

    def report(self, values, ended):
        for value in values[self.reported :]:
            iteration = self.reported + 1
            self.study.report(self.trial, iteration, value)
            if not ended and not self.pruning and self.study.should_prune(self.trial, iteration):
                self.study.note(self.trial, **{PRUNING: iteration})
                self.pruning = True
            self.reported = iteration

    def beat(self):
        self.is_lost = self.is_lost or not self.study.beat(self.trial)

    def settle(self):
        """Returns what became of a run that has ended, in words; None if it was interrupted."""
        summary, code = self.run.summary(), self.run.exit_code()
        if self.is_lost:
            return "is continued by another process, which has heard nothing of this one"
        if summary.get("status") in ENDED_WELL or code == 0:
            return self.complete(summary)
        if self.pruning:
            self.finish(State.PRUNED, None, summary)
            return f"pruned after {self.reported} value{'s' * (self.reported != 1)}"
        was_interrupted = summary.get("status") == "preempted" or code in SIGNALLED
        if not was_interrupted and (summary.get("status") == "failed" or code is not None):
            return self.fail(self.run.failure(), summary)
        return None

    def complete(self, summary):
        values = self.run.values()
        finite = [value for value in values if math.isfinite(value)]
        if not finite:
            return self.fail(self.missing(), summary)
        if not math.isfinite(values[-1]) and self.metric.summary == "last":
            return self.fail(f"{self.metric.name} was not finite in the end", summary)
        value = self.metric.final(finite)
        self.finish(State.COMPLETE, value, summary)
        return f"done: {self.metric.name} {value:.6g}"

    def missing(self):
        known = sorted({f"{row['split']}/{name}" for row in self.run.rows for name in metric_names(row)})
        if self.metric.name in known:
            return f"{self.metric.name} was never finite"
        self.has_no_metric = True
        return f"it measured no {self.metric.name}; known: {', '.join(known) or 'none (loggers: [jsonl] writes them down)'}"

    def fail(self, reason, summary):
        self.finish(State.FAIL, None, summary, **{REASON: reason})
        return f"failed: {reason}"

    def finish(self, state, value, summary, **attributes):
        if "train_seconds" in summary:
            attributes["seconds"] = round(summary["train_seconds"], 3)
        self.study.finish(self.trial, state, value, **attributes)

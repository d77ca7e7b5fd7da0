# SPDX-License-Identifier: MIT
import math

from sweep.study import PRUNING, REASON, State, run_path
from sweep.trial_run import TrialRun

ENDED_WELL = ("completed", "stopped_early")


class ActiveTrial:
    """A trial of this process and its run.

    Every step may be cut off: repeated by the process that takes the trial over, it has the same effect.
    """

    def __init__(self, study, trial):
        self.study, self.trial = study, trial
        self.metric = study.sweep.metric
        self.run = TrialRun(run_path(trial), self.metric)
        self.name = self.run.path.name
        self.reported = len(trial.intermediate_values)
        self.pruning = PRUNING in trial.user_attrs
        self.has_no_metric = False  # found when it has ended: then no trial has

    def must_be_started(self):
        """Returns whether the run neither continues nor has ended."""
        status = self.run.summary().get("status")
        return not self.run.is_alive() and (status is None or status == "preempted" and not self.pruning)

    def start(self, program, words, slot):
        """Resumes its run, if there is one."""
        run, study = self.run, self.study
        run.clear_torn()
        if run.has_begun():
            words = ["resume", run.path]
        else:
            own = self.trial.user_attrs["overrides"]
            words = [study.sweep.experiment, *words, *own, f"run.dir={run.path}"]
        if slot.gpus is not None:
            study.note(self.trial, gpus=slot.gpus)
        run.start(program, list(map(str, words)), slot.environment())

    def follow(self):
        """Reports news to the study. Returns True if the run has ended."""
        ended = not self.run.is_alive()  # asked first: what it wrote last must count
        for value in self.run.values()[self.reported :]:
            self.reported += 1
            self.study.report(self.trial, self.reported, value)
            if not ended and not self.pruning and self.study.should_prune(self.trial, self.reported):
                self.study.note(self.trial, **{PRUNING: self.reported})
                self.pruning = True
        if self.pruning:
            self.run.stop()
        return ended

    def settle(self):
        """Returns (the trial's state, a message) for a run that has ended. No state: it was interrupted."""
        summary, code = self.run.summary(), self.run.exit_code()
        values = [value for value in self.run.values() if math.isfinite(value)]
        if summary.get("status") in ENDED_WELL or code == 0:
            return self.complete(values, summary)
        if self.pruning:
            last = values[-1] if values else None
            self.finish(State.PRUNED, last, summary)
            return State.PRUNED, f"pruned after {self.count(self.reported)}" + self.shown(last)
        if summary.get("status") == "preempted" or self.run.was_signalled():
            return None, "was interrupted"
        if summary.get("status") == "failed" or code is not None:
            return self.fail(self.run.failure(), summary)
        return None, "was interrupted"

    def complete(self, values, summary):
        if not values:
            return self.fail(self.missing(), summary)
        if not math.isfinite(self.run.values()[-1]) and self.metric.summary == "last":
            return self.fail(f"{self.metric.name} was not finite in the end", summary)
        value = self.metric.final(values)
        self.finish(State.COMPLETE, value, summary)
        return State.COMPLETE, "done" + self.shown(value)

    def missing(self):
        known = self.run.metrics()
        if self.metric.name in known:
            return f"{self.metric.name} was never finite"
        self.has_no_metric = True
        names = ", ".join(known) or "none (loggers: [jsonl] writes them down)"
        return f"it measured no {self.metric.name}; known: {names}"

    def fail(self, reason, summary):
        self.finish(State.FAIL, None, summary, **{REASON: reason})
        return State.FAIL, f"failed: {reason}"

    def finish(self, state, value, summary, **attributes):
        if "train_seconds" in summary:
            attributes["seconds"] = round(summary["train_seconds"], 3)
        self.study.finish(self.trial, state, value, **attributes)

    def count(self, number):
        return f"{number} value{'s' if number != 1 else ''}"

    def shown(self, value):
        return "" if value is None else f": {self.metric.name} {value:.6g}"

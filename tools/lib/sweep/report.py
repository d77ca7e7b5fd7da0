# SPDX-License-Identifier: MIT
"""Reports on a sweep: its table on standard output, best.yaml and report.html in its
folder.
"""

import pathlib
import statistics
import warnings

import optuna

from ddprun.terminal import printable
from sweep.best import best_trial, write_best
from sweep.page import write_page
from sweep.study import State, trial_name
from sweep.table import table_text, time_text


def report_study(study):
    """Returns the exit code: whether there is a result."""
    trials = study.trials()
    print(printable(table_text(study)))
    print(summary_line(trials))
    best = best_trial(study)
    if best:
        print(f"best: {trial_name(best.number)}, {study.sweep.metric.name} {best.value:.6g}")
        file = write_best(study, best)
        print(f"  {printable(shown(file))}  trains it again" if file else "  its run is on another machine: no best.yaml here")
    page = write_page(study, best, importances(study))
    print(f"  {printable(shown(page))}")
    return 0 if best or not trials else 1


def summary_line(trials):
    counts = {state: sum(one.state == state for one in trials) for state in State}
    words = [(State.COMPLETE, "done"), (State.PRUNED, "pruned"), (State.FAIL, "failed"), (State.RUNNING, "under way")]
    text = f"{len(trials)} trials: " + ", ".join(f"{counts[state]} {word}" for state, word in words if counts[state])
    saved = saved_seconds(trials)
    return text + (f"; pruning saved about {time_text(saved)} of training" if saved else "")


def saved_seconds(trials):
    """Estimates the training time that pruning saved, had those trials taken as long as the others."""

    def seconds(state):
        return [one.user_attrs["seconds"] for one in trials if one.state == state and "seconds" in one.user_attrs]

    whole = seconds(State.COMPLETE)
    return sum(max(statistics.median(whole) - one, 0) for one in seconds(State.PRUNED)) if whole else 0


def importances(study):
    """Returns {path: share}; empty if there are too few trials."""
    paths = [one.path for one in study.sweep.searched]
    done = [one for one in study.trials() if one.state == State.COMPLETE]
    if len(paths) < 2 or len(done) < 4 or len({one.value for one in done}) < 2:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = (
            optuna.importance.PedAnovaImportanceEvaluator()
        )  # needs no further package, and is optuna-dashboard's too
        return optuna.importance.get_param_importances(study.study, evaluator=evaluator, params=paths)


def shown(path):
    """Returns the path in its shortest form from here."""
    here = pathlib.Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

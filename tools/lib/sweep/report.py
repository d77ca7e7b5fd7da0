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
from sweep.study import State, not_tried_again, trial_name, tried_again
from sweep.table import ranked, short_names, table_text, time_text

MOST_SHOWN = 100  # trials on a page, which has a line for each in every chart
MOST_NAMED = 3  # parameters


def report_study(study, program):
    """Returns the exit code: whether there is a result."""
    trials = study.trials()
    print(printable(table_text(study)))
    print(summary_line(trials))
    if any(one.state == State.FAIL for one in not_tried_again(trials)):
        print("  --retry-failed with the same command tries the failed trials again")
    best = best_trial(study)
    if best:
        print(f"best: {trial_name(best.number)}, {study.sweep.metric.name} {best.value:.6g}")
        file = write_best(study, best)
        print(f"  {printable(shown(file))}  trains it again" if file else "  its run is on another machine: no best.yaml here")
    for line in (importance_line(study), page_line(study, program)):
        if line:
            print(printable(line))
    return 0 if best or not trials else 1


def summary_line(trials):
    counts = {state: sum(one.state == state for one in trials) for state in State}
    words = [(State.COMPLETE, "done"), (State.PRUNED, "pruned"), (State.FAIL, "failed"), (State.RUNNING, "under way")]
    text = f"{len(trials)} trials: " + ", ".join(f"{counts[state]} {word}" for state, word in words if counts[state])
    if again := len(tried_again(trials)):
        text += f", {again} of them tried again"
    saved = saved_seconds(trials)
    return text + (f"; pruning saved about {time_text(saved)} of training" if saved else "")


def saved_seconds(trials):
    """Estimates the training time that pruning saved, had those trials taken as long as the others."""

    def seconds(state):
        return [one.user_attrs["seconds"] for one in trials if one.state == state and "seconds" in one.user_attrs]

    whole = seconds(State.COMPLETE)
    return sum(max(statistics.median(whole) - one, 0) for one in seconds(State.PRUNED)) if whole else 0


def page_line(study, program):
    """Writes report.html of the best trials; returns what to say of it."""
    trials = ranked(study.trials(), study.sweep.metric.maximize)
    folders = [study.folder / trial_name(one.number) for one in trials]
    here = [folder for folder in folders if (folder / "config.yaml").is_file()][:MOST_SHOWN]
    if not here:
        return ""
    page = study.folder / "report.html"
    done = program.run("report", *here, "--out", page)
    if done.returncode:
        return f"  no report.html: {done.stderr.strip().removeprefix('ddprun: error: ')}"
    left = len(trials) - len(here)
    return f"  {shown(page)}" + (f"  without {left} trial{'s' * (left > 1)}: it has the best {len(here)} of this machine" if left else "")


def importance_line(study):
    shares = importances(study)
    names = short_names(shares)
    words = [f"{names[path]} {share:.0%}" for path, share in list(shares.items())[:MOST_NAMED]]
    return f"  what matters most: {', '.join(words)}" if words else ""


def importances(study):
    """Returns {path: how much it has to do with being among the best}, the greatest first; empty if there are too few trials."""
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

# SPDX-License-Identifier: MIT
"""Reports on a sweep: its table on standard output, best.yaml and report.html in its folder."""

import datetime
import pathlib
import shutil
import textwrap

import yaml
from optuna.trial import TrialState as State

from ddprun import Run
from ddprun.terminal import printable
from sweep.space import override_words, value_text
from sweep.study import REASON, run_path, standing, trial_name, tried_again, was_interrupted
from tooling.durable import write_file

COLUMNS = 80
MOST_SHOWN = 100  # trials on a page, which has a line for each in every chart
ORDER = ["done", "pruned", "running", "waiting", "interrupted", "failed"]  # of the table
WORDS = dict(zip((State.COMPLETE, State.PRUNED, State.RUNNING, State.WAITING), ORDER))


def report_study(study, program):
    """Returns the exit code: whether there is a result."""
    everything = study.trials()
    trials = ranked(everything, study.sweep.metric.maximize)
    print(printable(table_text(study, trials, tried_again(everything))))
    print(summary_line(trials, tried_again(everything)))
    best = next((one for one in trials if one.state == State.COMPLETE), None)
    if any(status(one) == "failed" for one in standing(everything)):
        print("  --retry-failed with the same command tries the failed trials again")
    if best:
        print(f"best: {trial_name(best)}, {study.sweep.metric.name} {best.value:.6g}")
        file = write_best(study, best)
        print(f"  {printable(shown(file))}  trains it again" if file else "  its run is on another machine: no best.yaml here")
    if line := page_line(study, trials, program):
        print(printable(line))
    return 0 if best or not trials else 1


def status(trial):
    return WORDS.get(trial.state) or ("interrupted" if was_interrupted(trial) else "failed")


def ranked(trials, maximize):
    """Returns one for each run, those that were trained to the end first, by their value."""

    def rank(trial):
        worst = trial.value is None
        value = 0 if worst else -trial.value if maximize else trial.value
        return ORDER.index(status(trial)), worst, value, trial.number

    again = tried_again(trials)
    return sorted((one for one in trials if status(one) == "failed" or one.number not in again), key=rank)


# The table


def table_text(study, trials, again):
    width = max(shutil.get_terminal_size((COLUMNS, 24)).columns, COLUMNS)
    metric = study.sweep.metric.name
    names = short_names([one.path for one in study.sweep.searched])
    rows = [row("TRIAL", "STATUS", metric, "TIME", "PARAMETERS", metric)]
    for one in trials:
        words = [f"{name}={value_text(one.params[path])}" for path, name in names.items()]
        seconds = one.user_attrs.get("seconds")
        rows.append(row(trial_name(one), status(one), value_text(one.value), time_text(seconds), " ".join(words), metric))
    for one in (one for one in trials if status(one) == "failed"):
        after = f", tried again as {trial_name(again[one.number])}" if one.number in again else ""
        rows.append(f"{trial_name(one)} failed{after}: {one.user_attrs[REASON]}")
    return "\n".join(line for text in rows for line in textwrap.wrap(text, width, subsequent_indent="  ", break_on_hyphens=False))


def row(name, status, value, time, words, metric):
    return f"{name:10}  {status:11}  {value:>{max(len(metric), 8)}}  {time:>7}  {words}"


def time_text(seconds):
    if seconds is None:
        return ""
    return f"{seconds:.1f}s" if seconds < 60 else str(datetime.timedelta(seconds=round(seconds)))


def short_names(keys):
    """Returns the last word of each key if that distinguishes them; a plugin by its kind."""
    last = {key: key.split(".")[-2 if key.endswith(".plugin") else -1] for key in keys}
    return {key: name if list(last.values()).count(name) == 1 else key for key, name in last.items()}


def summary_line(trials, again):
    words = [status(one) for one in trials]
    text = f"{len(trials)} trials: " + ", ".join(f"{words.count(word)} {word}" for word in ORDER if word in words)
    retried = sum(one.number in again for one in trials)
    return text + (f", {retried} of them tried again" if retried else "")


# The files


def write_best(study, trial):
    """Writes the best trial as an experiment, from the config.yaml of its run. Returns None if that is elsewhere."""
    config = run_path(trial) / "config.yaml"
    if not config.is_file():
        return None
    file = study.folder / "best.yaml"
    experiment = Run(run_path(trial)).config
    experiment.pop("run", None)  # its folder is its own
    result = f"{trial_name(trial)}, {study.sweep.metric.name} {trial.value:.6g}"
    about = [f"The best of the sweep {study.name}: {result}.", *(f"  {word}" for word in override_words(trial.params))]
    comment = "".join(f"# {line}\n" for text in about for line in text.splitlines())
    write_file(file, comment + yaml.safe_dump(experiment, sort_keys=False, allow_unicode=True))
    return file


def page_line(study, trials, program):
    """Writes report.html of the best trials; returns what to say of it."""
    folders = [study.folder / trial_name(one) for one in trials]
    here = [folder for folder in folders if (folder / "config.yaml").is_file()][:MOST_SHOWN]
    if not here:
        return ""
    page = study.folder / "report.html"
    done = program.run("report", *here, "--out", page)
    if done.returncode:
        return f"  no report.html: {done.stderr.strip().removeprefix('ddprun: error: ')}"
    left = len(trials) - len(here)
    return f"  {shown(page)}" + (f"  without {left} trial{'s' * (left > 1)}: it has the best {len(here)} of this machine" if left else "")


def shown(path):
    """Returns the path in its shortest form from here."""
    here = pathlib.Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

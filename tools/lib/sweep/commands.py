# SPDX-License-Identifier: MIT
"""Runs the commands of tools/sweep."""

import json
import logging
import pathlib
import threading
import warnings

import optuna
import yaml

from ddprun.errors import UserError
from sweep.program import Program, check_values
from sweep.report import report_study, shown
from sweep.storage import Storage, explaining
from sweep.study import SweepStudy
from sweep.sweep_file import find_sweep_file, read_sweep
from sweep.sweeper import Sweeper, make_slots, say, threads_override
from tooling.ctrl_c import ctrl_c_sets
from tooling.durable import make_folder, write_file

SAVED = 75  # as ddprun says it: to be called again
OUTPUTS = pathlib.Path("outputs/sweeps")
RECORD = "sweep.json"  # in the sweep's folder: where its study is


class ToSay(logging.Handler):
    def emit(self, record):
        say(f"warning: Optuna: {record.getMessage()}")


def say_what_optuna_says():
    optuna.logging.disable_default_handler()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("optuna").addHandler(ToSay())
    warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")


def run(options):
    """Runs or resumes a sweep."""
    sweep, program = read_sweep(find_sweep_file(options.sweep)), Program(options.ddprun)
    name, folder = place_of(options, sweep)
    if not (folder / RECORD).exists():  # a sweep that cannot start leaves no folder behind
        check_values(sweep, program, options.overrides)
    try:
        make_folder(folder)
    except OSError as error:
        raise UserError(f"--out {folder}: {error.strerror}") from None
    storage = Storage(options.storage or f"sqlite:///{folder / 'study.db'}", name, options.grace)
    with explaining(storage):
        study = SweepStudy(sweep, storage, name, folder)
        study.require_same(options.overrides)
        return run_trials(study, program, options)


def place_of(options, sweep):
    """Returns the study's name and an absolute path: a run is found again from any folder."""
    name = options.name or sweep.name
    return name, (pathlib.Path(options.out) if options.out else OUTPUTS / name).resolve()


def run_trials(study, program, options):
    sweep, folder = study.sweep, study.folder
    write_record(study)
    slots = make_slots(options.jobs, options.gpus)
    composed = yaml.safe_load(program.composed(sweep.experiment, options.overrides))
    words = [*threads_override(composed, len(slots), options.overrides), *options.overrides]
    stopping = threading.Event()
    ctrl_c_sets(stopping, lambda: say("stopping: the trials save first"))
    say(f"{study.name}: {sweep.cap() or 'endless'} trials, {len(slots)} at a time, in {shown(folder)}")
    if options.retry_failed:
        count = study.try_failed_again()
        say(f"{count or 'no'} failed trial{' is' if count == 1 else 's are'} tried again")
    study.join()
    if not Sweeper(study, program, slots, words, stopping).run():
        say("stopped; the same command continues it")
        return SAVED
    return report_study(study, program)


def write_record(study):
    """Writes down what the command `report` needs."""
    write_file(study.folder / "sweep.yaml", study.sweep.file.read_bytes())
    write_file(study.folder / RECORD, json.dumps({"name": study.name, "storage": study.place.text()}))


def report(options):
    """Reports on a sweep that is done or under way."""
    folder = pathlib.Path(options.sweep)
    if not folder.is_dir():
        folder = place_of(options, read_sweep(find_sweep_file(options.sweep)))[1]
    try:
        record = json.loads((folder / RECORD).read_text())
    except (OSError, ValueError):
        raise UserError(f"{folder} is no sweep's folder: there is no {RECORD} in it") from None
    folder = folder.resolve()
    storage = Storage(options.storage or record["storage"], record["name"])
    with explaining(storage):
        return report_study(SweepStudy(read_sweep(folder / "sweep.yaml"), storage, record["name"], folder), Program(options.ddprun))

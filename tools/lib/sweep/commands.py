# SPDX-License-Identifier: MIT
"""Runs the commands of tools/sweep."""

import datetime
import json
import pathlib
import threading

from ddprun.config import read_config
from ddprun.errors import UserError
from sweep.preflight import check_values
from sweep.program import Program
from sweep.report import report_study, shown
from sweep.slots import make_slots, threads_override
from sweep.slurm import check_script, submit_array
from sweep.storage import Storage, parse, telling_of
from sweep.study import SweepStudy
from sweep.sweep_file import NO_FOLDER_NAME, find_sweep_file, is_folder_name, read_sweep
from sweep.sweeper import Sweeper, say
from tooling.ctrl_c import ctrl_c_sets
from tooling.durable import make_folder, write_file

SAVED = 75  # as ddprun says it: to be called again
OUTPUTS = pathlib.Path("outputs/sweeps")
RECORD = "sweep.json"  # in the sweep's folder: where its study is


def run(options):
    """Runs or resumes a sweep."""
    sweep = read_sweep(find_sweep_file(options.sweep))
    name = name_of(options, sweep)
    program = Program(options.ddprun)
    folder = folder_of(options, name)
    url = options.storage or f"sqlite:///{folder / 'study.db'}"
    if not (folder / RECORD).exists():  # a sweep that cannot start leaves no folder behind
        check_values(sweep, program, options.overrides)
    make_sweep_folder(folder)
    storage = Storage(url, name)
    with telling_of(storage):
        study = SweepStudy(sweep, storage, name, folder, options.grace)
        study.require_same(options.overrides)
        return run_trials(study, program, options)


def name_of(options, sweep):
    """Checks the name, which becomes that of a folder and a job."""
    name = options.name or sweep.name
    if not is_folder_name(name):
        raise UserError(f"--name: {NO_FOLDER_NAME}, found {json.dumps(name)}")
    return name


def folder_of(options, name):
    """Returns an absolute path: a run is found again from any folder."""
    return (pathlib.Path(options.out) if options.out else OUTPUTS / name).resolve()


def make_sweep_folder(folder):
    try:
        make_folder(folder)
    except OSError as error:
        raise UserError(f"--out {folder}: {error.strerror}") from None


def run_trials(study, program, options):
    sweep, folder = study.sweep, study.folder
    write_record(study)
    write_file(folder / "sweep.yaml", sweep.file.read_bytes())
    composed = folder / "experiment.yaml"
    program.write_composed(sweep.experiment, options.overrides, composed)
    slots = make_slots(options.jobs, options.gpus)
    words = [*threads_override(read_config(composed), len(slots), options.overrides), *options.overrides]
    stopping = threading.Event()
    ctrl_c_sets(stopping, lambda: say("stopping: the trials save first"))
    say(f"{study.name}: {sweep.cap() or 'endless'} trials, {len(slots)} at a time, in {shown(folder)}")
    if options.retry_failed:
        say(f"{count_text(study.try_failed_again())} tried again")
    study.processes.join()
    try:
        done = Sweeper(study, program, slots, words, stopping).run()
    finally:
        study.processes.leave()
    if not done:
        say("stopped; the same command continues it")
        return SAVED
    return report_study(study, program)


def count_text(failed):
    return f"{failed or 'no'} failed trial{'' if failed == 1 else 's'} {'is' if failed == 1 else 'are'}"


def write_record(study):
    record = {"name": study.name, "storage": study.place.text(), "file": str(study.sweep.file)}
    begun = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
    write_file(study.folder / RECORD, json.dumps(record | {"begun": begun}, indent=2))


def report(options):
    """Reports on a sweep that is done or under way."""
    folder = pathlib.Path(options.sweep)
    if not folder.is_dir():
        sweep = read_sweep(find_sweep_file(options.sweep))
        folder = folder_of(options, name_of(options, sweep))
    try:
        record = json.loads((folder / RECORD).read_text())
    except (OSError, ValueError):
        raise UserError(f"{folder} is no sweep's folder: there is no {RECORD} in it") from None
    folder = folder.resolve()
    sweep = read_sweep(folder / "sweep.yaml")
    storage = Storage(options.storage or record["storage"], record["name"])
    with telling_of(storage):
        return report_study(SweepStudy(sweep, storage, record["name"], folder), Program(options.ddprun))


def submit(options):
    """Submits the sweep as a Slurm job array."""
    sweep = read_sweep(find_sweep_file(options.sweep))
    name = name_of(options, sweep)
    if not options.storage or parse(options.storage).get_backend_name() == "sqlite":
        raise UserError("--slurm: jobs on several machines share a server: --storage postgresql://user@host/database")
    folder = folder_of(options, name)
    check_script(folder, options)
    program = Program(options.ddprun)
    check_values(sweep, program, options.overrides)
    if not options.dry_run:
        make_sweep_folder(folder)
    return submit_array(sweep, folder, name, program, options)

# SPDX-License-Identifier: MIT
import argparse
import re

from tooling.place import command as command_of

TOOL = command_of("sweep")
OF_THE_FILE = ("method", "metric", "parameters", "run_cap", "early_terminate", "target", "sampler")
USAGE = f"""\
{TOOL} SWEEP.yaml [key=value ...]        run a sweep, or resume it with the same command
       {TOOL} report FOLDER|SWEEP.yaml          write its table, best.yaml and report.html
       {TOOL} --slurm SWEEP.yaml --tasks N      run as an array of N jobs with one storage
       """


def parse_arguments(words):
    """Returns the command and its options."""
    command = "report" if "report" in words else "run"
    parser = argparse.ArgumentParser(prog=TOOL, usage=USAGE, description="Searches hyperparameters; see `ddprun docs sweeps`.")
    if command == "report":
        parser.add_argument(
            "sweep", metavar="FOLDER|SWEEP.yaml", help="a sweep's folder, or its file"
        )
        add_place(parser)
        add_program(parser)
        at = words.index("report")
        return command, parser.parse_args(words[:at] + words[at + 1 :])
    add_run(parser)
    add_place(parser)
    add_slurm(parser)
    options = parser.parse_intermixed_args(words)
    check(options, parser)
    return "submit" if options.slurm else command, options


def add_program(parser):
    parser.add_argument(
        "--ddprun", metavar="PROGRAM", help="default: $DDPRUN_PROGRAM, or the one of this installation or clone"
    )


def add_place(parser):
    add = parser.add_argument
    add(
        "--storage",
        metavar="URL",
        help="postgresql://user@host/database for several machines; default: FOLDER/study.db",
    )
    add("--name", help="name of the sweep and its study; default: `name:` of the file, or the file's name")
    add("--out", metavar="FOLDER", help="folder of the trials; default: outputs/sweeps/NAME")


def add_run(parser):
    add = parser.add_argument
    add("sweep", nargs="?", metavar="SWEEP.yaml", help="a sweep file; also found in configs/")
    add("overrides", nargs="*", metavar="key=value", help="change the experiment for all trials, as with ddprun")
    add("--jobs", type=count, metavar="N", help="trials at once; default 1, or one for each of --gpus")
    add("--gpus", type=gpu_list, default=[], metavar="0,1", help="share these among the trials that run at once")
    add_program(parser)
    add("--retry-failed", action="store_true", help="try the trials that have failed once more, with the same values")
    add("--grace", type=seconds, default=60, metavar="SECONDS",
        help="a process of another machine that is silent for this long is dead")  # fmt: skip


def add_slurm(parser):
    add = parser.add_argument
    add("--slurm", action="store_true", help="submit the sweep as an array of jobs; needs --storage postgresql://...")
    add("--tasks", type=count, default=1, metavar="N", help="jobs of the array (default 1)")
    add(
        "--sbatch",
        action="append",
        default=[],
        metavar="OPTION",
        help="an option of sbatch: --sbatch=--partition=accel; repeatable",
    )
    add("--dry-run", action="store_true", help="print the script without submitting it")


def check(options, parser):
    if not options.sweep:
        parser.error(f"there is no sweep file: {TOOL} sweeps/digits.yaml")
    if options.slurm and options.retry_failed:
        parser.error("--retry-failed: without --slurm: the jobs of the array that are under way take these trials too")
    for word in options.overrides:
        if not re.match(r"(\+{0,2}[^=+~]+=)|(~[^=]+$)", word):
            parser.error(f"{word}: expected key=value, +key=value or ~key, as ddprun takes them")
        if word.partition("=")[0] in OF_THE_FILE:
            parser.error(f"{word}: {word.partition('=')[0]} is a key of the sweep's file, not of the experiment: write it there")
        if re.match(r"\+{0,2}run\.dir=", word):
            parser.error(f"{word}: each trial has a folder of its own; --out names the sweep's")
    if options.gpus and options.jobs and options.jobs > len(options.gpus) and options.jobs % len(options.gpus):
        parser.error(f"--jobs {options.jobs} cannot share {len(options.gpus)} GPUs evenly")


def count(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be 1 or more")
    return value


def seconds(text):
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text}: must be more than 0")
    return value


def gpu_list(text):
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text}: expected GPUs separated by commas, each once: 0,1")
    return names

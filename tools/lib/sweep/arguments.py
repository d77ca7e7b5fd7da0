# SPDX-License-Identifier: MIT
import argparse
import re

from tooling.place import command as command_of

TOOL = command_of("sweep")
LEAST_GRACE = 3  # seconds
USAGE = f"""\
{TOOL} SWEEP.yaml [key=value ...]        run a sweep, or resume it with the same command
       {TOOL} report FOLDER|SWEEP.yaml          write its table, best.yaml and report.html
       """


def parse_arguments(words):
    """Returns the command and its options."""
    command = "report" if "report" in words else "run"
    parser = argparse.ArgumentParser(prog=TOOL, usage=USAGE, description="Searches hyperparameters; see `ddprun docs sweeps`.")
    add_place(parser)
    if command == "report":
        parser.add_argument("sweep", metavar="FOLDER|SWEEP.yaml", help="a sweep's folder, or its file")
        at = words.index("report")
        return command, parser.parse_args(words[:at] + words[at + 1 :])
    add_run(parser)
    options = parser.parse_intermixed_args(words)
    check(options, parser)
    return command, options


def add_place(parser):
    add = parser.add_argument
    add("--storage", metavar="URL", help="postgresql://user@host/database for several machines; default: FOLDER/study.db")
    add("--name", help="name of the sweep and its study; default: `name:` of the file, or the file's name")
    add("--out", metavar="FOLDER", help="folder of the trials; default: outputs/sweeps/NAME")
    add("--ddprun", metavar="PROGRAM", help="default: $DDPRUN_PROGRAM, or the one of this installation or clone")


def add_run(parser):
    add = parser.add_argument
    add("sweep", nargs="?", metavar="SWEEP.yaml", help="a sweep file; also found in configs/")
    add("overrides", nargs="*", metavar="key=value", help="change the experiment for all trials, as with ddprun")
    add("--jobs", type=at_least(1), metavar="N", help="trials at once; default 1, or one for each of --gpus")
    add("--gpus", type=gpu_list, default=[], metavar="0,1", help="share these among the trials that run at once")
    add("--retry-failed", action="store_true", help="try the trials that have failed once more, with the same values")
    add("--grace", type=at_least(LEAST_GRACE), default=60, metavar="SECONDS",
        help="a trial of another machine that is silent for this long (default 60) is taken over")  # fmt: skip


def check(options, parser):
    if not options.sweep:
        parser.error(f"there is no sweep file: {TOOL} sweeps/digits.yaml")
    for word in options.overrides:
        if re.match(r"\+{0,2}run\.dir=", word):
            parser.error(f"{word}: each trial has a folder of its own; --out names the sweep's")
    if options.gpus and options.jobs and options.jobs > len(options.gpus) and options.jobs % len(options.gpus):
        parser.error(f"--jobs {options.jobs} cannot share {len(options.gpus)} GPUs evenly")


def at_least(least):
    def number(text):
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text}: must be {least} or more")
        return value

    return number


def gpu_list(text):
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text}: expected GPUs separated by commas, each once: 0,1")
    return names

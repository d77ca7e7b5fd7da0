"""Checks everything that needs a GPU, and measures ddprun beside Python there. Exit code: 0 passed, 1 something failed, 2 no GPU. A
target that is not reached is reported, and is no failure.

It goes in two parts, each under 9 minutes and worth having alone: part 1 has the checks, what is worth most first; part 2 the tables of
measurements."""

import argparse
import os
import pathlib
import shutil
import signal
import sys
import tempfile

from measure import report
from measure.bench import BY_NAME
from measure.gpu import program
from measure.gpu.plan import CHECKS
from measure.gpu.results import Results
from measure.gpu.session import TABLES, Session

CORES_OF_A_CHECK = 5  # most of its time is the starts of programs, which one processor does


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(prog="tools/gpu_check", description=__doc__)
    add = parser.add_argument
    add("--dry-run", action="store_true", help="only list what would be done")
    add("--part", type=int, action="append", choices=(1, 2), help="run only this part; default: both")
    add("--only", action="append", default=[], metavar="CHECK", help="run only this check; may be repeated; no tables without --table")
    add("--table", action="append", default=[], metavar="TABLE", help="make only this table; may be repeated; no checks without --only")
    add("--minutes", type=float, default=9, help="limit of each part; what does not fit is skipped (default 9)")
    add("--pairs", type=int, default=5, help="rounds of a table, if time allows (default 5)")
    add("--at-once", type=int, default=max(1, (os.cpu_count() or 1) // CORES_OF_A_CHECK), metavar="N",
        help="make so many checks at a time (default: one for each 5 cores)")
    add("--keep", type=pathlib.Path, metavar="DIR", help="write results.json, results.md and logs of failures here after each check")
    add("--pack", metavar="DIR", help="only build here, and copy what a machine without a network needs into DIR")
    add("--packed", metavar="DIR", help="use the program of such a folder; needs --python")
    add("--python", help="a Python with torch 2.11.0, for --packed and --program; nothing is set up or downloaded then")
    add("--program", help="check this ddprun instead of building one")
    add("--rehearse", action="store_true", help="try this script with little to train, on pretend GPUs (tests/pretend_gpu/run) or on the CPU")
    options = parser.parse_args(words)
    check_words(parser, options)
    if options.python:  # peers are started in folders of their own; a link is the Python of a virtual environment
        options.python = os.path.abspath(shutil.which(options.python) or parser.error(f"--python: {options.python} is no program"))
    named = options.only or options.table
    options.only = options.only if named else list(CHECKS)
    options.table = options.table if named else list(TABLES)
    options.part = options.part or [1, 2]
    return options


def check_words(parser, options):
    if set(options.only) - set(CHECKS):
        parser.error(f"--only: the checks are {', '.join(CHECKS)}")
    if set(options.table) - set(TABLES):
        parser.error(f"--table: the tables are {', '.join(TABLES)}")
    if options.packed and not options.python:
        parser.error("--packed needs --python")
    if options.python and not (options.packed or options.program):
        parser.error("--python is for --packed or --program: what is built here has its own")
    if min(options.pairs, options.at_once) < 1:
        parser.error("--pairs and --at-once must be at least 1")


def list_all(options, gpus):
    print(f"GPUs: {', '.join(gpus) or 'none'}")
    for part, lines in {1: {name: CHECKS[name].help for name in CHECKS if name in options.only},
                        2: {f"table {name}": BY_NAME[name].help for name in TABLES if name in options.table}}.items():  # fmt: skip
        if part in options.part:
            print("\n  ".join([f"part {part}:", *(f"{name}: {text}" for name, text in lines.items())]))


def main():
    options = parse_arguments()
    if options.pack:
        program.pack(options.pack)
        return 0
    gpus = [gpu["name"] for gpu in report.gpus()]
    if options.dry_run:
        list_all(options, gpus)
    if not gpus and not options.rehearse:
        print("no NVIDIA GPU is found here (nvidia-smi): nothing to check; --rehearse tries the script itself", file=sys.stderr)
        return 2
    if options.dry_run:
        return 0
    if options.packed:
        os.environ.setdefault("DDPRUN_DATA", str(pathlib.Path(options.packed).resolve() / "data"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what it started is ended, too
    folder = tempfile.mkdtemp(prefix="ddprun-gpu-")
    results = Results(options)
    Session(options, gpus, folder, results).run()
    print(f"\n{results.markdown()}")
    if results.failed():
        print(f"the runs are kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

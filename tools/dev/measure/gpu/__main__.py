"""Checks everything that needs a GPU, and measures ddprun beside Python there. Exit code: 0 passed, 1 something failed, 2 no GPU. A
target that is not reached is told, and is no failure.

It goes in two parts, each under 9 minutes and worth having alone: part 1 has the checks, what is worth most first; part 2 a few more,
and the tables of measurements."""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from measure.gpu import bench, build, pack, plan
from measure.gpu.results import Results
from measure.gpu.session import Session, list_all

CORES_OF_A_CHECK = 5  # most of its time is the starts of programs, which one processor does


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(prog="tools/gpu_check", description=__doc__)
    add = parser.add_argument
    add("--dry-run", action="store_true", help="only list what would be done")
    add("--part", type=int, action="append", choices=plan.PARTS, help="run only this part; default: both")
    add("--only", action="append", default=[], metavar="CHECK", help="run only this check; may be repeated; no tables without --table")
    add("--table", action="append", default=[], metavar="TABLE", help="make only this table; may be repeated; no checks without --only")
    add("--minutes", type=float, default=9, help="limit of each part; what does not fit is skipped (default 9)")
    add("--pairs", type=int, default=5, help="rounds of a table, if time allows (default 5)")
    add("--at-once", type=int, default=max(1, (os.cpu_count() or 1) // CORES_OF_A_CHECK), metavar="N",
        help="make so many checks at a time (default: one for each 5 cores)")
    add("--keep", type=pathlib.Path, metavar="DIR", help="write results.json, results.md and logs of failures here after each check")
    add("--pack", metavar="DIR", help="only build here, and copy what a machine without a network needs into DIR")
    add("--packed", metavar="DIR", help="use such a folder: its program, or a build with its libraries; needs --python")
    add("--rebuild", action="store_true", help="with --packed: build even if it has a program")
    add("--python", help="a Python with torch 2.11.0; nothing is set up or downloaded then")
    add("--build", default=str(build.ROOT / "build/gpu_check"), help="build folder, with --python")
    add("--program", help="check this ddprun instead of building one")
    add("--rehearse", action="store_true", help="try this script with little to train, on pretend GPUs (tests/pretend_gpu/run) or on the CPU")
    options = parser.parse_args(words)
    check_names(parser, options)
    if options.python:  # peers are started in folders of their own; a link is the Python of a virtual environment
        options.python = os.path.abspath(shutil.which(options.python) or parser.error(f"--python: {options.python} is no program"))
    named = options.only or options.table
    options.only = options.only if named else list(plan.CHECKS)
    options.table = options.table if named else [table.name for table in bench.TABLES]
    options.part = sorted(set(options.part or plan.PARTS))
    return options


def check_names(parser, options):
    if set(options.only) - set(plan.CHECKS):
        parser.error(f"--only: the checks are {', '.join(plan.CHECKS)}")
    tables = [table.name for table in bench.TABLES]
    if set(options.table) - set(tables):
        parser.error(f"--table: the tables are {', '.join(tables)}")
    if options.packed and not options.python:
        parser.error("--packed needs --python")
    for name in ("pairs", "at_once"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")


def find_gpus():
    """Returns the GPUs' names; empty without a driver."""
    if not shutil.which("nvidia-smi"):
        return []
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    listed = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False)
    return listed.stdout.splitlines() if listed.returncode == 0 else []


def main():
    options = parse_arguments()
    if options.pack:
        pack.pack(options.pack)
        return 0
    gpus = find_gpus()
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
    results = Results(options, folder)
    Session(options, gpus, folder, results).run()
    print(f"\n{results.markdown()}")
    if results.failed():
        print(f"the runs are kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

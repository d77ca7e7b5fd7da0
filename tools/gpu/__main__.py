"""Builds ddprun, checks everything that needs a GPU, and measures ddprun beside Python there. Exit code: 0 passed, 1 something
failed, 2 no GPU. A target that is not reached is told, and is no failure.

Without --bench: all checks, then the two tables that matter most. With it: the checks that matter most, then all tables."""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from gpu import build, pack
from gpu.checks import CHECKS
from gpu.checks.context import Context, Skip
from gpu.runs import Ddprun

sys.path.append(str(build.ROOT / "tools/bench"))  # for suite

from gpu import bench, bench_report  # noqa: E402

BENCH_SECONDS = 150  # what is kept back for it after all checks
CHECKS_SECONDS = 75  # what the checks get before all tables
SHORT_ROUNDS = 3
# What a figure without it would be worth nothing.
CHECKS_BEFORE_TABLES = ["backend_loads", "convnet_losses", "gpu_tests", "cuda_graphs", "two_ranks_on_one_gpu", "resident_images",
                        "mixed_precision"]  # fmt: skip


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tools/gpu_check", description=__doc__)
    add = parser.add_argument
    add("--dry-run", action="store_true", help="only say what would be done")
    add("--pack", metavar="DIR", help="copy the libraries that the build needs into DIR, for --deps; nothing else")
    add("--deps", metavar="DIR", help="build with the libraries in DIR; needs --python")
    add("--python", help="a Python that has torch 2.11.0; then nothing is set up or downloaded")
    add("--build", default=str(build.ROOT / "build/gpu_check"), help="build folder, with --python")
    add("--program", help="check this ddprun instead of building one")
    add("--minutes", type=float, default=9, help="checks that do not fit are skipped (default 9)")
    add("--bench", action="store_true", help="the checks that matter most, then all tables of measurements")
    add("--no-bench", action="store_true", help="all checks, no table")
    add("--table", action="append", default=[], metavar="TABLE", help="measure this one; may be repeated")
    add("--pairs", type=int, help=f"rounds of a table, where the time allows (default 5, without --bench {SHORT_ROUNDS})")
    add("--only", action="append", default=[], metavar="CHECK", help="this check; may be repeated")
    add("--rehearse", action="store_true", help="on the CPU: tries this script where there is no GPU")
    add("--markdown", type=pathlib.Path, help="write the tables here, too")
    add("--json", type=pathlib.Path, help="write every figure here, with date, machine, versions and command")
    options = parser.parse_args()
    check_names(parser, options)
    if options.python:  # peers are started in folders of their own; a link is the Python of a virtual environment
        options.python = os.path.abspath(shutil.which(options.python) or parser.error(f"--python: {options.python} is no program"))
    options.table = options.table or tables_of(options)
    options.only = options.only or (CHECKS_BEFORE_TABLES if options.bench else [])
    options.pairs = options.pairs or (5 if options.bench else SHORT_ROUNDS)
    return options


def tables_of(options):
    if options.no_bench:
        return []
    return [table.name for table in bench.TABLES] if options.bench else list(bench.SHORT)


def check_names(parser, options):
    names = [check.__name__ for check in CHECKS]
    if set(options.only) - set(names):
        parser.error(f"--only: the checks are {', '.join(names)}")
    tables = [table.name for table in bench.TABLES]
    if set(options.table) - set(tables):
        parser.error(f"--table: the tables are {', '.join(tables)}")
    if options.no_bench and (options.bench or options.table):
        parser.error("--no-bench contradicts --bench and --table")
    if options.deps and not options.python:
        parser.error("--deps needs --python")
    if options.pairs is not None and options.pairs < 1:
        parser.error("--pairs must be at least 1")


def find_gpus():
    """Their names; empty without a driver."""
    if not shutil.which("nvidia-smi"):
        return []
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    listed = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False)
    return listed.stdout.splitlines() if listed.returncode == 0 else []


class Results:
    """Prints each outcome as it comes."""

    def __init__(self):
        self.rows = []

    def add(self, name, outcome, detail, seconds):
        detail = " ".join(detail.split())
        self.rows.append((name, outcome, detail, f"{seconds:.1f}"))
        print(f"{outcome} {name}: {detail} ({seconds:.1f} s)", flush=True)

    def failed(self):
        return any(outcome == "FAIL" for _, outcome, *_ in self.rows)

    def markdown(self):
        lines = ["| check | outcome | what was seen | s |", "|---|---|---|---|"]
        return "\n".join(lines + [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in self.rows])


def attempt(results, name, action):
    started = time.monotonic()
    try:
        outcome, detail = "PASS", action()
    except Skip as reason:
        outcome, detail = "SKIP", str(reason)
    except (AssertionError, build.BuildFailed, OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
        outcome, detail = "FAIL", str(error) or type(error).__name__
    results.add(name, outcome, detail, time.monotonic() - started)


def list_checks(options, gpus):
    print(f"GPUs: {', '.join(gpus) or 'none'}")
    how = f"with {options.python}" if options.python else "with tools/build"
    print(f"build: {options.program or how}")
    for check in CHECKS:
        if not options.only or check.__name__ in options.only:
            print(f"{check.__name__}: {check.__doc__}")
    for table in bench.TABLES:
        if table.name in options.table:
            print(f"table {table.name}: {sys.modules[type(table).__module__].__doc__.splitlines()[0]}")


class Session:
    """One run of this script: the build, the checks, the tables. All of it ends by the deadline."""

    def __init__(self, options, gpus, folder):
        self.options = options
        self.results = Results()
        self.bench = None  # once the data is laid out
        self.tables = {}
        self._about = bench_report.facts(options)
        self._gpus = gpus
        self._folder = folder
        self._deadline = time.monotonic() + 60 * options.minutes

    def run(self):
        context = self.build()
        if context is None:
            return
        try:
            if self.options.bench:  # the peers start and compile beside the checks
                attempt(self.results, "peers", lambda: self.start_bench(context))
            self.check(context)
            if self.options.table:
                self.measure(context)
        finally:
            if self.bench:
                self.bench.stop_peers()

    def build(self):
        """What the checks work with; None where it failed."""
        made = []
        if self.options.program:
            program = pathlib.Path(self.options.program).resolve()
            made = [program, program.parents[1]]
        else:
            attempt(self.results, "build", lambda: made.extend(build.prepare(self.options)) or str(made[0]))
        if not made:
            return None
        ddprun = Ddprun(pathlib.Path(made[0]).resolve(), self._folder, "cpu" if self.options.rehearse else "cuda",
                        self._deadline)  # fmt: skip
        return Context(ddprun, self._gpus, made[1], self.options)

    def check(self, context):
        began = time.monotonic()
        for check in CHECKS:
            if self.options.only and check.__name__ not in self.options.only:
                continue
            left = self._deadline - time.monotonic() - (BENCH_SECONDS if self.options.table else 0)
            if self.options.bench:
                left = min(left, began + CHECKS_SECONDS - time.monotonic())
            attempt(self.results, check.__name__, (lambda check=check: check(context)) if left > 0 else out_of_time)

    def start_bench(self, context):
        self.bench = bench.make(context, self.options)
        self.bench.start_peers()
        return f"{len(self.bench.standing)} scripts start with {self.bench.python}"

    def measure(self, context):
        if self.bench is None and not self.options.bench:
            attempt(self.results, "peers", lambda: self.start_bench(context))
        if self.bench is None:
            return
        attempt(self.results, "peaks", self.find_peaks)
        if self.bench.peaks:
            for name, table in bench.measure(self.bench, self.options.table, self._deadline, self.results):
                self.tables[name] = table
                self.save()

    def markdown(self):
        return bench_report.markdown(self._about, self.results.markdown(), self.bench, self.tables)

    def save(self):
        """After each table, too: whoever ends this script early keeps what there is."""
        if self.options.markdown:
            self.options.markdown.write_text(self.markdown())
        if self.options.json:
            self.options.json.write_text(bench_report.as_json(self._about, self.results.rows, self.bench, self.tables))

    def find_peaks(self):
        left = self._deadline - time.monotonic()
        self.bench.wait_for_peers(max(1, min(bench.READY_SECONDS, left / 2)))
        try:
            self.bench.find_peaks()
        except bench.process.Failed as reason:
            raise AssertionError(str(reason)) from reason
        peaks = self.bench.peaks
        return (f"{peaks['operations_per_second'] / 1e12:.3g} TFLOP/s in bf16, {peaks['bytes_per_second'] / 1e12:.3g} TB/s, measured when "
                "all peers had started and compiled")  # fmt: skip


def out_of_time():
    raise Skip("the time for it is used up; --minutes allows more")


def main():
    options = parse_arguments()
    if options.pack:
        pack.pack(options.pack)
        return 0
    gpus = find_gpus()
    if options.dry_run:
        list_checks(options, gpus)
    if not gpus and not options.rehearse:
        print(
            "no NVIDIA GPU is found here (nvidia-smi): nothing to check; --rehearse tries the script itself",
            file=sys.stderr,
        )
        return 2
    if options.dry_run:
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what it started is ended, too
    folder = tempfile.mkdtemp(prefix="ddprun-gpu-")
    session = Session(options, gpus, folder)
    try:
        session.run()
    finally:
        session.save()
    print(f"\n{session.markdown()}")
    if session.results.failed():
        print(f"the runs are kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

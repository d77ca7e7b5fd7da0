"""tools/dev/measure/run [TABLE...]: measures the tables named, or all, and prints them as markdown. Exit code: 0, 1
where a side failed, 2 for words that make no sense. A target that is not reached is told, and is no failure."""

import argparse
import dataclasses
import functools
import os
import pathlib
import shlex
import shutil
import signal
import sys
import tempfile

from measure import data, report, table
from measure.comparisons import TABLES, exported, loader, python
from measure.rounds import Share
from measure.trainings import ROOT, Ddprun

BY_NAME = {one.name: one for one in TABLES}


@dataclasses.dataclass
class Bench:
    """What the tables work with."""

    options: argparse.Namespace
    ddprun: Ddprun
    folder: pathlib.Path

    @property
    def wanted(self):
        return self.options.pairs

    @property
    def most_seconds(self):
        return self.options.timeout

    @functools.cached_property
    def mnist(self):
        """The folder of MNIST/raw."""
        return data.lay_out_mnist(self.folder / "mnist")

    @functools.cached_property
    def photos(self):
        return data.lay_out_photos(self.folder / "photos")


def make_parser(cores):
    listed = "\n".join(f"  {one.name:<16} {one.help}" for one in TABLES)
    parser = argparse.ArgumentParser(
        prog="tools/dev/measure/run",
        description=f"Measures ddprun beside its peers and prints markdown tables. Tables:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("tables", nargs="*", metavar="TABLE", help="default: all")
    add("--pairs", type=int, default=5, help="rounds of one run of each side (default 5)")
    add("--steps", type=int, default=300, help="optimizer steps per run (default 300: one epoch at batch 200)")
    add("--warm-up", type=int, default=50, help="of these, the warm-up steps before the measured ones (default 50)")
    add(
        "--model",
        action="append",
        choices=python.MODELS,
        help="model of the tables with peers; may be repeated (default: both)",
    )
    add(
        "--network",
        action="append",
        choices=[network.name for network in exported.NETWORKS],
        help="exported: a network; may be repeated",
    )
    add(
        "--precision",
        action="append",
        choices=["fp32", "bf16"],
        help="precision of training; may be repeated (default fp32)",
    )
    add(
        "--peer",
        action="append",
        choices=list(python.PEERS_OF_MNIST),
        help="peer to compare with; may be repeated (default: all)",
    )
    add("--epochs", action="append", type=int, help="job: epochs; may be repeated (default 1 and 5)")
    add("--workers", type=int, default=2, help="workers per run (default 2)")
    add("--threads", type=int, help="threads per worker's kernels (default: the cores over --workers)")
    add("--all-threads", type=int, default=cores, help="allocator: threads of its only worker (default: the cores)")
    add("--global-batch", type=int, default=200, help="default 200; one worker takes half of it")
    add("--num-workers", type=int, default=0, help="loader processes per Python worker (default 0)")
    add("--allocator-images", type=int, default=12_000, help="allocator: images per run (default 12,000)")
    add(
        "--case",
        action="append",
        metavar="MODEL:BATCH",
        help="allocator: a case; may be repeated (default: four of them)",
    )
    add(
        "--data", action="append", choices=list(loader.NAMES), help="loader: a data set; may be repeated (default: all)"
    )
    add("--trials", type=int, default=50, help="sweep: trials (default 50)")
    add("--jobs", type=int, default=1, help="sweep: trials at once (default 1)")
    add("--device", choices=["cpu", "cuda"], default="cpu")
    add("--timeout", type=float, default=600, help="seconds per run")
    add("--json", type=pathlib.Path, help="also write all figures here")
    add(
        "--program",
        default=os.environ.get("DDPRUN_PROGRAM", ROOT / "build/release/bin/ddprun"),
        help="the ddprun to measure",
    )
    return parser


def parse_arguments():
    cores = len(os.sched_getaffinity(0))
    parser = make_parser(cores)
    options = parser.parse_args()
    options.model = options.model or python.MODELS
    options.precision = options.precision or ["fp32"]
    options.peer = options.peer or list(python.PEERS_OF_MNIST)
    options.epochs = options.epochs or [1, 5]
    options.threads = options.threads or max(1, cores // options.workers)
    unknown = [name for name in options.tables if name not in BY_NAME]
    if unknown:
        parser.error(f"no table is called {unknown[0]}; there are {', '.join(BY_NAME)}")
    if not 0 < options.warm_up < options.steps:
        parser.error("--warm-up must be at least 1 and below --steps")
    if min(options.trials, options.jobs, options.pairs) < 1:
        parser.error("--pairs, --trials and --jobs must be at least 1")
    return options


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what it started is ended, too
    about = report.facts(shlex.join(["tools/dev/measure/run", *sys.argv[1:]]))
    print(report.in_words(about, {}))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-measure-"))
    failed = False
    try:
        for made in measure_all(options, about, folder):
            failed = failed or made.failed()
            print(f"\n{made.markdown()}", flush=True)
    finally:
        if not failed:
            shutil.rmtree(folder)
    if failed:
        print(f"a side failed; its runs are kept in {folder}", file=sys.stderr)
    return 1 if failed else 0


def measure_all(options, about, folder):
    """Yields the tables as they are made."""
    bench, made = Bench(options, Ddprun(options.program, folder), folder), {}
    for name in options.tables or BY_NAME:
        made[name] = table.measure(BY_NAME[name], bench, Share())
        if options.json:
            options.json.write_text(report.as_json(about, made))
        yield made[name]


if __name__ == "__main__":
    sys.exit(main())

"""tools/dev/measure/run [TABLE...]: measures the tables named, or all, and prints them as markdown. Exit code: 0, 1
where a side failed, 2 for words that make no sense. A target that is not reached is reported, and is no failure."""

import argparse
import os
import pathlib
import shlex
import shutil
import signal
import sys
import tempfile

from measure import report
from measure.bench import BY_NAME, Bench
from measure.comparisons import training
from measure.comparisons.loader import NAMES
from measure.rounds import Share
from measure.trainings import ROOT


def make_parser():
    listed = "\n".join(f"  {one.name:<24} {one.help}{' (--device cuda)' * one.on_gpus}" for one in BY_NAME.values())
    parser = argparse.ArgumentParser(
        prog="tools/dev/measure/run",
        description=f"Measures ddprun beside its peers and prints markdown tables. Tables:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,  # the defaults are those of measure.bench.Bench
    )
    add = parser.add_argument
    add("tables", nargs="*", metavar="TABLE", help="default: all that the device is for")
    add("--pairs", type=int, help="rounds of one run of each side (default 5)")
    add("--steps", type=int, help="optimizer steps per run (default 300: one epoch at batch 200)")
    add("--warm-up", type=int, help="of these, the warm-up steps before the measured ones (default 50)")
    add("--model", action="append", choices=training.MODELS, help="model of the tables of MNIST; may be repeated (default: both)")
    add("--precision", action="append", choices=["fp32", "bf16"], help="precision of training; may be repeated (default fp32)")
    add("--peer", action="append", choices=list(training.PEERS_OF_MNIST), help="peer to compare with; may be repeated (default: all)")
    add("--data", action="append", choices=list(NAMES), help="loader: a data set; may be repeated (default: all)")
    add("--workers", type=int, help="workers per run (default 2)")
    add("--threads", type=int, help="threads per worker's kernels (default: the cores over --workers)")
    add("--global-batch", type=int, help="samples of a step on all workers together (default 200)")
    add("--device", choices=["cpu", "cuda"], help="default cpu")
    add("--timeout", type=float, help="seconds per run (default 600)")
    add("--json", type=pathlib.Path, help="also write all figures here")
    return parser


def parse_arguments(words=None):
    parser = make_parser()
    options = parser.parse_args(words)
    unknown = [name for name in options.tables if name not in BY_NAME]
    if unknown:
        parser.error(f"no table is called {unknown[0]}; there are {', '.join(BY_NAME)}")
    return parser, options


def bench_of(parser, options, folder):
    settings = {name: value for name, value in vars(options).items() if name not in ("tables", "json")}
    bench = Bench(os.environ.get("DDPRUN_PROGRAM", ROOT / "build/release/bin/ddprun"), folder, **settings)
    if "threads" not in settings:
        bench.threads = max(1, len(os.sched_getaffinity(0)) // bench.workers)
    if bench.pairs < 1 or not 0 < bench.warm_up < bench.steps:
        parser.error("--pairs must be at least 1, and --warm-up at least 1 and below --steps")
    return bench


def main():
    parser, options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what it started is ended, too
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-measure-"))
    failed = False
    try:
        bench = bench_of(parser, options, folder)
        about = report.facts(shlex.join(["tools/dev/measure/run", *sys.argv[1:]]))
        print(report.in_words(about))
        made = {}
        for name in options.tables or [one.name for one in BY_NAME.values() if one.on_gpus <= (bench.device == "cuda")]:
            made[name] = bench.measure(name, Share())
            failed = failed or made[name].failed()
            if "json" in options:
                options.json.write_text(report.as_json(about, made))
            print(f"\n{made[name].markdown()}", flush=True)
    finally:
        if not failed:
            shutil.rmtree(folder)
    if failed:
        print(f"a side failed; its runs are kept in {folder}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

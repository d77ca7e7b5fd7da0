"""tools/dev/bench/run [TABLE...]: measures the tables named, or all, and prints them as markdown."""

import argparse
import json
import os
import pathlib
import signal
import sys

from suite import (allocator, beside_python, evaluation, exported, job, loader, logging, machine, operations, peers, process,
                   saving, scaling, start, survival, sweep, training, worker_overhead, workers)  # fmt: skip

TABLES = {"beside_python": beside_python, "training": training, "exported": exported, "job": job, "start": start, "evaluation": evaluation,
          "loader": loader, "workers": workers, "worker_overhead": worker_overhead, "operations": operations,
          "allocator": allocator, "saving": saving,
          "logging": logging, "survival": survival, "scaling": scaling, "sweep": sweep}  # fmt: skip
MODELS = ["convnet_bn", "convnet"]
ROOT = pathlib.Path(__file__).resolve().parents[4]


def make_parser(cores):
    tables = "\n".join(f"  {name:<16} {table.__doc__.removeprefix('Table: ')}" for name, table in TABLES.items())
    parser = argparse.ArgumentParser(
        prog="tools/dev/bench/run",
        description=f"Measures ddprun beside its peers and prints markdown tables. Tables:\n{tables}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("tables", nargs="*", metavar="TABLE", help="default: all")
    add("--pairs", type=int, default=5, help="rounds of one run of each side (default 5)")
    add("--steps", type=int, default=300, help="optimizer steps per run (default 300: one epoch at batch 200)")
    add("--warm-up", type=int, default=50, help="of these, the warm-up steps before the measured ones (default 50)")
    add("--model", action="append", choices=MODELS, help="model of the tables with peers; may be repeated (default: both)")
    add("--network", action="append", choices=[network.name for network in exported.NETWORKS], help="exported: a network; may be repeated")
    add("--precision", action="append", choices=["fp32", "bf16"], help="precision of training; may be repeated (default fp32)")
    add("--peer", action="append", choices=list(peers.PEERS), help="peer to compare with; may be repeated (default: all)")
    add("--epochs", action="append", type=int, help="job: epochs; may be repeated (default 1 and 5)")
    add("--workers", type=int, default=2, help="workers per run (default 2)")
    add("--threads", type=int, help="threads per worker's kernels (default: the cores over --workers)")
    add("--all-threads", type=int, default=cores, help="allocator: threads of its only worker (default: the cores)")
    add("--global-batch", type=int, default=200, help="default 200; one worker takes half of it")
    add("--num-workers", type=int, default=0, help="loader processes per Python worker (default 0)")
    add("--allocator-images", type=int, default=12_000, help="allocator: images per run (default 12,000)")
    add("--case", action="append", metavar="MODEL:BATCH", help="allocator: a case; may be repeated (default: four of them)")
    add("--data", action="append", choices=list(loader.NAMES), help="loader: a data set; may be repeated (default: all)")
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
    options.model = options.model or MODELS
    options.precision = options.precision or ["fp32"]
    options.peer = options.peer or list(peers.PEERS)
    options.epochs = options.epochs or [1, 5]
    options.threads = options.threads or max(1, cores // options.workers)
    unknown = [name for name in options.tables if name not in TABLES]
    if unknown:
        parser.error(f"no table is called {unknown[0]}; there are {', '.join(TABLES)}")
    if not 0 < options.warm_up < options.steps:
        parser.error("--warm-up must be at least 1 and below --steps")
    if min(options.trials, options.jobs) < 1:
        parser.error("--trials and --jobs must be at least 1")
    return options


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what it started is ended, too
    facts = machine.describe()
    results = {"machine": facts, "arguments": sys.argv[1:], "tables": {}}
    print(machine.in_words(facts))
    warning = machine.warn_of_load(facts)
    if warning:
        print(f"Warning: {warning}", file=sys.stderr)
    for name in options.tables or TABLES:
        try:
            text, figures = TABLES[name].measure(options)
        except process.Failed as error:
            raise SystemExit(str(error)) from error
        results["tables"][name] = figures
        print(f"\n## {TABLES[name].TITLE}\n\n{text}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Builds ddprun and checks everything that needs a GPU. Exit code: 0 passed, 1 something failed, 2 no GPU."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from gpu import build, checks, pack
from gpu.runs import Ddprun

BENCH_SECONDS = 120  # what is kept back for it


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
    add("--no-bench", action="store_true", help="no comparison with Python in the end")
    add("--only", action="append", default=[], metavar="CHECK", help="this check; may be repeated")
    add("--rehearse", action="store_true", help="on the CPU: tries this script where there is no GPU")
    add("--markdown", type=pathlib.Path, help="write the table here, too")
    options = parser.parse_args()
    names = [check.__name__ for check in checks.CHECKS]
    if set(options.only) - set(names):
        parser.error(f"--only: the checks are {', '.join(names)}")
    if options.deps and not options.python:
        parser.error("--deps needs --python")
    return options


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
    except checks.Skip as reason:
        outcome, detail = "SKIP", str(reason)
    except (AssertionError, build.BuildFailed, OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
        outcome, detail = "FAIL", str(error) or type(error).__name__
    results.add(name, outcome, detail, time.monotonic() - started)


def python_for_bench(context):
    """The one given, or where none is, the benchmarks' own environment, made where it is missing."""
    if not context.options.python:
        subprocess.run([build.ROOT / "tools/bench/setup"], check=True)
        return build.ROOT / ".venv-bench/bin/python"
    has_torchvision = [context.options.python, "-c", "import torchvision"]
    if subprocess.run(has_torchvision, capture_output=True, check=False).returncode != 0:
        raise checks.Skip(f"{context.options.python} has no torchvision")
    return context.options.python


def bench(context, seconds):
    """ddprun beside plain Python DDP on the GPU"""
    context.require_gpu()
    python = python_for_bench(context)
    environment = {**os.environ, "PYTHONPATH": str(build.ROOT / "tools/bench")}
    command = [python, "-m", "suite", "beside_python", "--program", context.ddprun.program, "--device", "cuda"]
    command += ["--workers", str(len(context.gpus)), "--pairs", "3", "--timeout", "60"]
    command += ["--global-batch", str(100 * len(context.gpus)), "--json", str(context.ddprun.folder / "bench.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment, check=False)
    if "MNIST is not in" in done.stderr:
        raise checks.Skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr[-500:]
    print(done.stdout)
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if "images/s" in line)  # the ratio is in the next
    return "; ".join(line.strip("| ").replace(" | ", ", ") for line in lines[at : at + 2])


def list_checks(options, gpus):
    print(f"GPUs: {', '.join(gpus) or 'none'}")
    how = f"with {options.python}" if options.python else "with tools/build"
    print(f"build: {options.program or how}")
    for check in checks.CHECKS:
        if not options.only or check.__name__ in options.only:
            print(f"{check.__name__}: {check.__doc__}")
    if not options.no_bench:
        print(f"bench: {bench.__doc__}")


def run_checks(options, gpus, folder):
    deadline = time.monotonic() + 60 * options.minutes
    results = Results()
    made = {}

    def do_build():
        made["program"], made["build"] = build.prepare(options)
        return str(made["program"])

    if options.program:
        made = {"program": options.program, "build": pathlib.Path(options.program).resolve().parents[1]}
    else:
        attempt(results, "build", do_build)
    if "program" not in made:
        return results
    ddprun = Ddprun(pathlib.Path(made["program"]).resolve(), folder, "cpu" if options.rehearse else "cuda")
    context = checks.Context(ddprun, gpus, made["build"], options)
    for check in checks.CHECKS:
        if options.only and check.__name__ not in options.only:
            continue
        left = deadline - time.monotonic() - (0 if options.no_bench else BENCH_SECONDS)
        attempt(results, check.__name__, (lambda check=check: check(context)) if left > 0 else out_of_time)
    if not options.no_bench:
        left = deadline - time.monotonic()
        attempt(results, "bench", (lambda: bench(context, left)) if left > 30 else out_of_time)
    return results


def out_of_time():
    raise checks.Skip("no time left; --minutes allows more")


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
    folder = tempfile.mkdtemp(prefix="ddprun-gpu-")
    results = run_checks(options, gpus, folder)
    table = results.markdown()
    print(f"\n{table}")
    if options.markdown:
        options.markdown.write_text(table + "\n")
    if results.failed():
        print(f"\nthe runs are kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

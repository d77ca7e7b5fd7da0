"""Runs the sides in turn, A B C, C B A, ..., so that all meet the same machine."""

import shutil
import sys
import tempfile


def run_once(side, job, timeout):
    """What `side.run` returns; its folder is removed."""
    folder = tempfile.mkdtemp(prefix="ddprun-bench-")
    try:
        return side.run(job, folder, timeout)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def alternate(sides, job, rounds, timeout):
    """One list of results for each side. Every other round goes backwards: none always runs first."""
    results = {side.name: [] for side in sides}
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            result = run_once(side, job, timeout)
            results[side.name].append(result)
            note = f"{number + 1}/{rounds} {side.name}: {result.images_per_second:,.0f} images/s"
            times = f"first step {result.first_step_seconds:.2f} s, whole command {result.total_seconds:.2f} s"
            print(f"{note}, {times}", file=sys.stderr, flush=True)
    return [results[side.name] for side in sides]

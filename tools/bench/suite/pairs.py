"""Runs two sides alternately, A B A B ..., so that both meet the same machine."""

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


def alternate(sides, job, pairs, timeout):
    """One list of results for each side. Every other pair begins with the other side: neither always runs second."""
    results = {side.name: [] for side in sides}
    for pair in range(pairs):
        for side in sides if pair % 2 == 0 else reversed(sides):
            result = run_once(side, job, timeout)
            results[side.name].append(result)
            note = f"{pair + 1}/{pairs} {side.name}: {result.images_per_second:,.0f} images/s"
            print(f"{note}, first step {result.first_step_seconds:.2f} s", file=sys.stderr, flush=True)
    return [results[side.name] for side in sides]

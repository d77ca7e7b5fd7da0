"""How training speeds up with the number of workers, at the same global batch."""

import os

from measure import report
from measure.comparisons import wide_resnet
from measure.comparisons.training import job_of, ours
from measure.rounds import Absent, Side
from measure.table import SPEED, Case, Figure, Ratio, Table

WORKERS = {"cpu": [1, 2, 4], "cuda": [1, 2, 4, 8]}
WAIT = Figure("wait_ms", "waiting for the others, ms of a step", 2, more_is_better=False)


def cases(bench):
    for model in ["wide_resnet"] if for_gpus(bench) else bench.model:
        sides = [workers_side(bench, model, count) for count in WORKERS[bench.device]]
        yield Case(sides, (SPEED, WAIT), tuple(Ratio(side.name, sides[0].name) for side in sides[1:]), model)


def workers_side(bench, model, count):
    """So many workers on all cores; on GPUs each needs one."""
    if model == "wide_resnet":
        job = wide_resnet.job_of(bench, "bf16", workers=count)
    else:
        job = job_of(bench, model, workers=count, threads=max(1, len(os.sched_getaffinity(0)) // count))
    side = ours(bench, job, f"{count} worker{'s' * (count > 1)}")

    def run(seconds):
        gpus = len(report.gpus())
        if bench.device == "cuda" and count > max(1, gpus):
            raise Absent(f"{gpus} GPU{'s' * (gpus > 1)} here")
        found = side.run(seconds)
        return {**found, "wait_ms": 1e3 * found["summary"]["wait_seconds"] / job.steps}

    return Side(side.name, run)


def for_gpus(bench):
    return bench.device == "cuda" or bench.rehearse


def in_words(bench):
    mnist = (
        f"MNIST, global batch {bench.global_batch}, {bench.steps} steps; the threads of all workers together are the cores, where "
        "there are so many."
    )
    return (
        f"{wide_resnet.trained(bench) if for_gpus(bench) else mnist} Waiting: for gradients that backward does not cover, and for "
        "slower workers; of steps that are replayed as CUDA graphs it is not known."
    )


TABLES = [Table("scaling", "1, 2, 4 workers, on GPUs 8, too, at the same global batch", cases, words=in_words)]

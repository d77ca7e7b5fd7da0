"""What becomes of a run when something fails, beside torchrun with the plain script."""

import contextlib
import functools
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import uuid

from ddprun.rows import read_lines
from measure import process
from measure.comparisons.python import job_of
from measure.rounds import Side
from measure.table import Case, Figure, Table
from measure.trainings import PEERS, torchrun

LIMIT = 30  # seconds to wait for an end
HANG_SECONDS = 5
CHECKPOINT_STEPS = 50
STRIKE_AT = 110  # steps done when the fault strikes, at least

FAULTS = {
    "a worker is killed (kill -9)": ("worker", signal.SIGKILL),
    "a worker crashes (SIGSEGV)": ("worker", signal.SIGSEGV),
    "a worker stops (SIGSTOP)": ("worker", signal.SIGSTOP),
    "the launcher is killed (kill -9)": ("launcher", signal.SIGKILL),
    "the launcher is told to end (SIGTERM)": ("launcher", signal.SIGTERM),
}
FIGURES = (
    Figure("ended", "seconds to the end", 1, more_is_better=False),
    Figure("left", "processes left", more_is_better=False),
    Figure("told", "reported"),
    Figure("lost", "steps lost", more_is_better=False),
)


class Ours:
    name, environment = "ddprun", {}

    def __init__(self, bench):
        self.bench = bench

    def command(self, folder):
        job = job_of(self.bench.options, workers=2, threads=1, batch=200, steps=100_000, warm_up=10, device="cpu")
        return [
            *self.bench.ddprun.command(job, folder / "run"),
            f"checkpoint.every={CHECKPOINT_STEPS}st",
            f"launch.hang_seconds={HANG_SECONDS}",
        ]

    def steps(self, folder, _):
        rows, _ = read_lines(folder / "run/metrics.jsonl")
        return max((row["step"] for row in rows), default=0)

    def kept_steps(self, folder):
        return max((int(path.name[5:]) for path in (folder / "run/checkpoints").glob("step_????????")), default=0)


class Torchrun:
    name, environment = "torchrun", {"OMP_NUM_THREADS": "1"}

    def __init__(self, bench):
        self.bench = bench

    def command(self, _):
        words = ["--data", str(self.bench.mnist), "--epochs", "100", "--log-every", "10", "--device", "cpu"]
        return torchrun(2, PEERS / "mnist/plain.py") + words

    def steps(self, _, output):
        return max(map(int, re.findall(r"step (\d+) loss", output)), default=0)

    def kept_steps(self, _):
        return 0  # the guides' script saves nothing


def cause_in(output):
    """The line of the output that names rank 1 as the cause."""
    lines = [line.strip() for line in output.splitlines()]
    named = [line for line in lines if re.search(r"rank 1 (failed|has hung|hangs|on)|local_rank: 1|rank\s+: 1", line)]
    return named[0][:90] if named else "nothing"


def strike(side, target, number, seconds):
    """The figures of a run that is struck after some steps; `seconds` are those that it may take to get there."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="strike-", dir=side.bench.folder) as name:
        folder = pathlib.Path(name)
        environment = {**os.environ, **side.environment, process.MARK: mark}
        with open(folder / "output.txt", "wb") as file:
            running = subprocess.Popen(
                side.command(folder), cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT
            )
        try:
            return struck(side, running, folder, mark, target, number, seconds)
        finally:
            process.kill_processes_with(process.MARK, mark)
            running.wait()


def struck(side, running, folder, mark, target, number, seconds):
    output = folder / "output.txt"
    deadline = time.monotonic() + seconds
    while (done := side.steps(folder, output.read_text(errors="replace"))) < STRIKE_AT:
        if running.poll() is not None or time.monotonic() > deadline:
            raise process.Failed(
                f"{side.name} did not come to step {STRIKE_AT}:\n{output.read_text(errors='replace')[-2000:]}"
            )
        time.sleep(0.01)
    of_rank = [pid for pid, variables in process.processes_with(process.MARK, mark).items() if variables.get("RANK") == "1"]
    struck_at, ended = time.monotonic(), float("inf")
    os.kill(max(of_rank) if target == "worker" else running.pid, number)
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(LIMIT)
        ended = time.monotonic() - struck_at
    time.sleep(2)
    left = len(process.processes_with(process.MARK, mark)) if ended < LIMIT else 0
    told = cause_in(output.read_text(errors="replace")) if target == "worker" else ""
    return {"ended": ended, "left": left, "told": told, "lost": max(0, done - side.kept_steps(folder))}


def cases(bench):
    for name, (target, number) in FAULTS.items():
        yield Case(
            [Side(kind.name, functools.partial(strike, kind(bench), target, number)) for kind in (Ours, Torchrun)],
            FIGURES,
            name=name,
        )


def in_words(_):
    return (
        f"MNIST, convnet_bn, two workers on the CPU, struck after {STRIKE_AT} steps or a few more; a checkpoint every "
        f"{CHECKPOINT_STEPS} steps, `launch.hang_seconds={HANG_SECONDS}`; the script of the guides under torchrun, "
        f"which has neither. Seconds to the end of the command, inf: none within {LIMIT}; the processes left two "
        "seconds after it; what the output says of the cause; the steps of work lost."
    )


TABLES = [
    Table(
        "survival",
        "what becomes of a run when something fails, beside torchrun with the plain script",
        cases,
        words=in_words,
    )
]

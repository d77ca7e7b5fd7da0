"""What the checks share: the settings of their runs, and how two runs are compared."""

import concurrent.futures
import contextlib
import os
import pathlib
import time

from measure.runs import Ddprun, Run

SAME = ["trainer.deterministic=true", "trainer.log_every=1", "~early_stopping"]
SMALL = ["dataset.train_size=6400", "dataset.val_size=200", "dataset.test_size=200"]
EXACT_FP32 = "trainer.precision=fp32_exact"  # what can be compared with a CPU: torch's default rounds convolutions to TF32
TOLERANCE = 2e-3
LAST_SECONDS = 3  # of a check's time: what its runs may not use, so that it can still say which one hangs


class Skip(Exception):
    """The check cannot be made here; the text says why."""


class Context:
    """What a check works with; made from plain values, since each check is a process of its own."""

    def __init__(self, folder, program, gpu_test, environment, gpus, rehearse, python, seconds):
        self.folder = pathlib.Path(folder)  # of this check alone
        self.gpu_test = pathlib.Path(gpu_test)
        self.gpus = gpus  # names; none in a rehearsal on the CPU
        self.rehearse = rehearse  # with little to train
        self.python = python  # has torch; empty: none is known
        self.deadline = time.monotonic() + seconds - LAST_SECONDS
        self.ddprun = Ddprun(program, folder, "cuda" if gpus else "cpu", environment, self.deadline)

    def environment(self):
        return {**os.environ, **self.ddprun.environment}

    def require_gpu(self):
        if not self.gpus:
            raise Skip("no GPU here")

    def train(self, name, overrides, experiment="digits", environment=None):
        return self.ddprun.train(name, experiment, overrides, environment)

    def at_once(self, jobs, most=5):
        """The results of functions without arguments, {name: function}, several at a time. All are called, whatever one of them
        throws; then that is thrown."""
        with concurrent.futures.ThreadPoolExecutor(min(most, len(os.sched_getaffinity(0)))) as pool:
            futures = {name: pool.submit(job) for name, job in jobs.items()}
        return {name: future.result() for name, future in futures.items()}

    def train_at_once(self, runs, experiment="digits"):
        """{name: overrides} as {name: Run}"""
        return self.at_once({name: lambda name=name, words=words: self.train(name, words, experiment) for name, words in runs.items()})

    def reference(self, name, overrides, experiment):
        """The run of a CPU, made once for all checks."""
        folder = self.folder.parent / "references"
        folder.mkdir(exist_ok=True)
        if not (folder / name / "summary.json").exists():
            trial = f"{name}_{self.folder.name}"
            Ddprun(self.ddprun.program, folder, "cpu", self.ddprun.environment, self.deadline).train(trial, experiment, overrides)
            with contextlib.suppress(OSError):  # another check has made it meanwhile
                (folder / trial).rename(folder / name)
        return Run(folder / name)


def difference(run, expected, steps=None):
    """The largest between the losses of two runs, in their first `steps` or in all, as a part of the first loss."""
    losses, wanted = run.losses(), expected.losses()
    assert wanted and losses.keys() == wanted.keys(), f"{run.folder.name} has {len(losses)} rows, {expected.folder.name} {len(wanted)}"
    first = abs(wanted[min(wanted)])
    distances = [abs(losses[step] - wanted[step]) if losses[step] is not None else float("inf") for step in sorted(wanted)[:steps]]
    return max(distances) / first


def compare(run, expected, tolerance=TOLERANCE, steps=None):
    """Of the first `steps` alone, or of all."""
    worst = difference(run, expected, steps)
    text = f"{run.folder.name} differs from {expected.folder.name} by {worst:.1e} of the first loss; allowed {tolerance:.0e}"
    assert worst <= tolerance, text
    return worst


def same(run, expected):
    names = f"of {run.folder.name} and {expected.folder.name}"
    assert run.losses() == expected.losses(), f"the losses {names} differ by {difference(run, expected):.1e} of the first"
    assert run.weights() == expected.weights(), f"the losses {names} are the same, the weights differ"

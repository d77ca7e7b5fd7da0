"""What a trial of one step costs in a sweep, beside Optuna's and Hydra's ways in Python."""

import os
import pathlib
import random
import resource
import sys

from measure import process
from measure.rounds import Side
from measure.table import Case, Figure, Ratio, Table
from measure.trainings import PEERS, ROOT

ROUNDS, ROUND = 5, 20  # at most; of at least so many trials, for each round starts its program anew
TRIAL = Figure("trial", "s a trial", 2, more_is_better=False)
BUSY = Figure("busy", "processor, s", 2, more_is_better=False)
COUNTS = {"train": 1200, "val": 200}
EXPERIMENT = """\
name: step
defaults: [dataset/tensors, model/mlp, optimizer/sgd]
dataset:
  train: [{data}/train_input.npy, {data}/train_target.npy]
  val: [{data}/val_input.npy, {data}/val_target.npy]
trainer: {{max_steps: 1, global_batch: 64}}
launch: {{workers: 1, threads: 1, device: cpu}}
"""
SWEEP = """\
experiment: {experiment}
method: tpe
metric: {{name: val/loss, goal: minimize}}
parameters:
  optimizer.lr: {{low: 0.001, high: 0.3, log: true}}
  optimizer.momentum: {{low: 0.0, high: 0.95}}
run_cap: {trials}
"""


class Ddprun:
    name = "tools/sweep"
    about = "a process, a folder with logs, metrics, a checkpoint and a report; resumes after kill -9"

    def __init__(self, folder, data, options):
        self.folder, self.jobs, self.program = folder, options.jobs, pathlib.Path(options.program).resolve()
        self.experiment, self.sweep = folder / "step.yaml", folder / "sweep.yaml"
        self.experiment.write_text(EXPERIMENT.format(data=data))

    def command(self, begin, until):
        self.sweep.write_text(SWEEP.format(experiment=self.experiment, trials=until))
        return [sys.executable, "-B", str(ROOT / "tools/sweep"), str(self.sweep), "--jobs", str(self.jobs), "--out",
                str(self.folder / "out"), "--ddprun", str(self.program)]  # fmt: skip


class Optuna:
    def __init__(self, folder, data, options):
        self.folder, self.data, self.jobs = folder, data, options.jobs

    def command(self, begin, until):
        return [sys.executable, str(PEERS / "sweep/with_optuna.py"), "--data", str(self.data), "--trials", str(until),
                "--storage", f"sqlite:///{self.folder}/study.db", "--jobs", str(self.jobs), *self.words]  # fmt: skip


class OptunaApart(Optuna):
    name, words = "Optuna, a script for each trial", ["--apart"]
    about = "a process"


class OptunaHere(Optuna):
    name, words = "Optuna, in its process", []
    about = "nothing of its own: a crash or a leak of one trial is that of all"


class Hydra:
    def __init__(self, folder, data, options):
        self.folder, self.data, self.jobs = folder, data, options.jobs
        self.name = "Hydra -m" + (", joblib" if self.jobs > 1 else "")
        self.about = "a folder with its settings; in " + ("joblib's processes" if self.jobs > 1 else "one process")

    def command(self, begin, until):
        """A list of values: it has no search of its own, and keeps no study."""
        values = random.Random(begin)
        rates = ",".join(f"{10 ** values.uniform(-3, -0.5):.6g}" for _ in range(begin, until))
        words = ["hydra/launcher=joblib", f"hydra.launcher.n_jobs={self.jobs}"] if self.jobs > 1 else []
        return [sys.executable, str(PEERS / "sweep/with_hydra.py"), "-m", f"data={self.data}", f"lr={rates}",
                f"hydra.sweep.dir={self.folder}/runs_{begin}", *words]  # fmt: skip


def make_data(folder):
    """Ten blurred patterns with noise, as digits are: arrays that both sides read."""
    import numpy

    generator = numpy.random.default_rng(1)
    patterns = generator.random((10, 28, 28), numpy.float32)
    for split, count in COUNTS.items():
        target = generator.integers(0, 10, count)
        noise = generator.random((count, 28, 28), numpy.float32)
        numpy.save(folder / f"{split}_input.npy", (0.5 * (patterns[target] + noise))[:, None])
        numpy.save(folder / f"{split}_target.npy", target)


def rounds(bench):
    return min(ROUNDS, max(1, bench.options.trials // ROUND))


class Continued:
    """One way: its study continues from round to round."""

    def __init__(self, way, bench):
        self.way, self.bench, self.done = way, bench, 0

    def run(self, seconds):
        trials, wanted = self.bench.options.trials, rounds(self.bench)
        begin, until = (trials * number // wanted for number in (self.done, self.done + 1))
        self.done += 1
        before = processor_seconds()
        ran = process.run(self.way.command(begin, until), {"OMP_NUM_THREADS": "1"}, self.way.folder, seconds)
        return {
            "trial": ran.seconds / (until - begin),
            "busy": (processor_seconds() - before) / (until - begin),
            "about": self.way.about,
        }


def processor_seconds():
    """Of all that we have started, and of what that has started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cases(bench):
    data = bench.folder / "trials"
    data.mkdir()
    make_data(data)
    ways = []
    for number, kind in enumerate((Ddprun, OptunaApart, OptunaHere, Hydra)):
        folder = bench.folder / f"way_{number}"
        folder.mkdir()
        ways.append(kind(folder, data, bench.options))
    sides = [Side(way.name, Continued(way, bench).run) for way in ways]
    yield Case(
        sides,
        (TRIAL, BUSY, Figure("about", "what a trial has")),
        tuple(Ratio(ways[0].name, way.name, TRIAL) for way in ways[1:]),
    )


def in_words(bench):
    return (
        f"{bench.options.trials} trials of one optimizer step each: mlp, {COUNTS['train']:,} images of 28 x 28, batch "
        f"64, one thread, then the loss on {COUNTS['val']} images. TPE and SQLite where there is a study, --jobs "
        f"{bench.options.jobs}. Seconds of the whole command over its trials; the study continues from round to round. "
        f"Cores: {len(os.sched_getaffinity(0))}."
    )


TABLES = [Table("sweep", "what a trial of one step costs in a sweep, beside Optuna's and Hydra's ways in Python", cases, words=in_words,
                rounds=rounds)]  # fmt: skip

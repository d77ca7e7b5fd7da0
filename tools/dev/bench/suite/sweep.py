"""Table: what a trial of one step costs in a sweep, beside Optuna's and Hydra's ways in Python."""

import os
import pathlib
import random
import resource
import statistics
import sys
import tempfile

import numpy

from suite import machine, process, report

TITLE = "A trial of one step"
ROOT = pathlib.Path(__file__).resolve().parents[4]
PEERS = ROOT / "tools/dev/bench/sweep_peers"
ROUNDS, ROUND = 5, 20  # at most; of at least so many trials, for each round starts its program anew
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
method: bayes
metric: {{name: val/loss, goal: minimize}}
parameters:
  optimizer.lr: {{distribution: log_uniform_values, min: 0.001, max: 0.3}}
  optimizer.momentum: {{min: 0.0, max: 0.95}}
run_cap: {trials}
"""


class Ddprun:
    name = "tools/sweep"
    about = "a process, a folder with logs, metrics, a checkpoint and a report; goes on after kill -9"

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
        return [sys.executable, str(PEERS / "with_optuna.py"), "--data", str(self.data), "--trials", str(until),
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
        return [sys.executable, str(PEERS / "with_hydra.py"), "-m", f"data={self.data}", f"lr={rates}",
                f"hydra.sweep.dir={self.folder}/runs_{begin}", *words]  # fmt: skip


def make_data(folder):
    """Ten blurred patterns with noise, as digits are: arrays that both sides read."""
    generator = numpy.random.default_rng(1)
    patterns = generator.random((10, 28, 28), numpy.float32)
    for split, count in COUNTS.items():
        target = generator.integers(0, 10, count)
        noise = generator.random((count, 28, 28), numpy.float32)
        numpy.save(folder / f"{split}_input.npy", (0.5 * (patterns[target] + noise))[:, None])
        numpy.save(folder / f"{split}_target.npy", target)


def measure(options):
    seconds, busy, loads = {}, {}, []
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as top:
        data = pathlib.Path(top) / "data"
        data.mkdir()
        make_data(data)
        ways = []
        for number, kind in enumerate((Ddprun, OptunaApart, OptunaHere, Hydra)):
            folder = pathlib.Path(top) / f"way_{number}"
            folder.mkdir()
            ways.append(kind(folder, data, options))
        for number, (begin, until) in enumerate(parts(options.trials)):
            for way in ways if number % 2 == 0 else reversed(ways):
                loads.append(float(machine.load()[0]))
                before = processor_seconds()
                ran = process.run(way.command(begin, until), {"OMP_NUM_THREADS": "1"}, way.folder, options.timeout)
                seconds.setdefault(way.name, []).append(ran.seconds / (until - begin))
                busy.setdefault(way.name, []).append((processor_seconds() - before) / (until - begin))
                print(f"{until}/{options.trials} {way.name}: {seconds[way.name][-1]:.2f} s a trial, load {loads[-1]}",
                      file=sys.stderr, flush=True)  # fmt: skip
    text = in_words(options, ways, seconds, busy, loads)
    return text, {"seconds_per_trial": seconds, "processor_seconds_per_trial": busy, "load": loads}


def processor_seconds():
    """Of all that we have started, and of what that has started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def parts(trials):
    """[(begin, until)] of the rounds; the study goes on from one to the next."""
    rounds = min(ROUNDS, max(1, trials // ROUND))
    ends = [trials * i // rounds for i in range(rounds + 1)]
    return list(zip(ends, ends[1:]))


def in_words(options, ways, seconds, busy, loads):
    ours = seconds[ways[0].name]
    rows = [[way.name, report.show(seconds[way.name], 2), report.show(report.ratios(seconds[way.name], ours), 2),
             report.show(busy[way.name], 2), way.about] for way in ways]  # fmt: skip
    rounds = f"{len(ours)} alternating rounds (the study continues)" if len(ours) > 1 else "one round"
    text = (
        f"{options.trials} trials of one optimizer step each: mlp, {COUNTS['train']:,} images of 28 x 28, batch 64, "
        f"one thread, then the loss on {COUNTS['val']} images. TPE and SQLite where there is a study, "
        f"--jobs {options.jobs}. Seconds of the whole command over its trials, {rounds}: median (least .. most); "
        f"ratios within a round. Cores: {len(os.sched_getaffinity(0))}; load {statistics.median(loads):.1f} "
        f"({min(loads):.1f} .. {max(loads):.1f}).\n\n"
    )
    return text + report.markdown(["", "s a trial", "/ tools/sweep", "processor, s", "what a trial has"], rows)

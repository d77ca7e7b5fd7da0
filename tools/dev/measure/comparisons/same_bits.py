"""What the promise of the same bits costs: shards, the records by which steps can be made again, and a step made again."""

import functools
import math
import random
import subprocess
import time

import ddprun
from measure import process
from measure.comparisons.python import MEMORY, job_of, ours
from measure.rounds import Side
from measure.table import SPEED, Case, Figure, Ratio, Table

# --- shards ----------------------------------------------------------------------------------------------------------

BATCHES, WORKERS, MANY = (64, 256), (1, 2), 8
AS_MANY_AS_WORKERS = 0.97  # of the speed without shards, at least


def shards(bench):
    for model in bench.options.model:
        for batch in BATCHES:
            for count in WORKERS:
                yield shards_case(bench, model, batch, count)


def shards_case(bench, model, batch, workers):
    job = job_of(bench.options, model, batch=batch, workers=workers, threads=1)
    numbers = {"without": 0, "as many as workers": workers, f"{MANY} shards": MANY}
    sides = [ours(bench, job, name, [f"trainer.shards={number}"]) for name, number in numbers.items()]
    without, as_many, many = numbers
    ratios = (Ratio(as_many, without, at_least=AS_MANY_AS_WORKERS), Ratio(many, without),
              Ratio(as_many, without, MEMORY), Ratio(many, without, MEMORY))  # fmt: skip
    return Case(sides, (SPEED, MEMORY), ratios, f"{model}, batch {batch}, {workers} worker{'s' * (workers > 1)}")


def shards_in_words(bench):
    return (
        f"MNIST, {bench.options.steps} steps on {bench.options.device}, one thread in each worker: `trainer.shards` "
        "beside none, as many as workers and eight."
    )


# --- digests and records ---------------------------------------------------------------------------------------------

STEP = Figure("step_ms", "step, ms", 3, more_is_better=False)


def digests(bench):
    """Rows of metrics come with a digest of weights, optimizer state and averages, compared between the workers."""
    options = bench.options
    for model in options.model:
        words = {
            f"a row of {options.warm_up} steps": [],
            "a row of each step": ["trainer.log_every=1"],
            "each operator recorded": [f"+record.steps=1..{options.steps}"],
        }
        job = job_of(options, model, workers=2, threads=1)
        sides = [ours(bench, job, name, own) for name, own in words.items()]
        yield Case(sides, (STEP,), tuple(Ratio(side.name, sides[0].name, STEP) for side in sides[1:]), model)


def digests_in_words(bench):
    return (
        f"MNIST, global batch {bench.options.global_batch}, 2 workers with one thread: what a row of metrics costs with "
        "its digest and the comparison of the workers, and what a record of every operator does, as `ddprun replay` "
        "makes it of one step."
    )


# --- a step again ----------------------------------------------------------------------------------------------------

SHOWN = Figure("shown_seconds", "until the step is shown, s", 2, more_is_better=False)
AGAIN = Figure("seconds", "until its bits are compared and the page is there, s", 2, more_is_better=False)
HALF_AN_INTERVAL = Figure("half_interval", "half a checkpoint's interval, s", 2)
WITHIN = Figure("within", "half an interval and 2 s, over the time until it is shown")
ADDED = 2  # seconds, for the start


def replay(bench):
    for model in bench.options.model:
        side = Side("ddprun replay", Replays(bench, model).again)
        yield Case([side], (SHOWN, AGAIN, HALF_AN_INTERVAL), (Ratio(side.name, figure=WITHIN, at_least=1),), model)


INTERVALS = 3  # of a run, each with a checkpoint at its end


class Replays:
    """Of one run: each time of another step, spread evenly over the intervals between checkpoints."""

    def __init__(self, bench, model):
        self.bench, self.folder = bench, bench.folder / f"replayed_{model}"
        self.interval = bench.options.steps // INTERVALS
        self.job = job_of(bench.options, model, workers=2, threads=1)
        rounds, chance = bench.options.pairs, random.Random(1)
        places = [self.interval * (2 * number + 1) // (2 * rounds) + 1 for number in range(rounds)]
        self.steps = [place + self.interval * chance.randrange(INTERVALS) for place in places]

    @functools.cached_property
    def run(self):
        self.folder.mkdir()
        command = self.bench.ddprun.command(self.job, self.folder / "run")
        process.run([*command, f"checkpoint.every={self.interval}st"], {}, self.folder, self.bench.most_seconds)
        return ddprun.run(self.folder / "run")

    @functools.cached_property
    def interval_seconds(self):
        rows = [row for row in self.run.rows() if row["split"] == "train" and row["step"] >= self.job.warm_up]
        each = (rows[-1]["time"] - rows[0]["time"]) / (rows[-1]["step"] - rows[0]["step"])
        return each * self.interval

    def again(self, seconds):
        half = self.interval_seconds / 2
        step = self.steps.pop()
        words = ["replay", "run", f"--step={step}", f"--page=step_{step}.html"]
        began = time.time()
        with subprocess.Popen(["timeout", str(seconds), self.bench.ddprun.program, *words], cwd=self.folder, stdout=subprocess.PIPE, text=True) as made:
            shown = next((time.time() - began for line in made.stdout if line.startswith(f"step {step}:")), math.nan)
            made.stdout.read()
        if made.returncode != 0:
            raise process.Failed(f"replay of step {step} ended with {made.returncode}")
        return {"shown_seconds": shown, "seconds": time.time() - began, "half_interval": half, "within": (half + ADDED) / shown}


def replay_in_words(bench):
    return (
        f"A run of MNIST with a checkpoint every {bench.options.steps // INTERVALS} steps on 2 workers, of which each "
        "round makes another step again, with its page."
    )


TABLES = [
    Table("shards", "training with trainer.shards beside training without", shards, words=shards_in_words),
    Table("digests", "what digests at rows of metrics and records of operators cost", digests, words=digests_in_words),
    Table("replay", "how long a step takes that is made again, beside half a checkpoint's interval", replay, words=replay_in_words),
]  # fmt: skip

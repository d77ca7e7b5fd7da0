"""ddprun beside the same training in Python: scripts for MNIST, started as their users start them."""

import dataclasses
import functools
import math
import statistics
import sys

from measure import report
from measure.rounds import Absent, Side
from measure.table import SECONDS, SPEED, Case, Figure, Ratio, Table
from measure.trainings import KEEPS_MEMORY, PEERS, Job, mnist, torchrun, train_script

MODELS = ["convnet_bn", "convnet"]
IMAGES, TEST_IMAGES = 60_000, 10_000
SAME_ACCURACY = (
    0.015  # shares of the test images that differ by no more are one result: dropout and the order of samples differ
)
SHARE_OF_MEMORY = 0.85  # of what is free: no more workers than it holds

TRAINING = dataclasses.replace(SPEED, text="training, images/s")
FROM_START = Figure("images_per_second_from_start", "the same, from the first step on")
FIRST_STEP = Figure("first_step_seconds", "command to first step, s", 2, more_is_better=False)
MEMORY = Figure("peak_rss_bytes", "resident memory per worker, MB", scale=1e-6, more_is_better=False)
CORRECT = Figure("test_correct", "test images correct")
EVALUATION = Figure("evaluated_per_second", "evaluation, images/s")
LOOP = Figure("loop_seconds", "seconds", 2, more_is_better=False)
WRITTEN = Figure("save_seconds", "written after, s", 3, more_is_better=False)


@dataclasses.dataclass(frozen=True)
class Peer:
    script: str
    about: str
    under_torchrun: bool = True
    knows_precision: bool = True  # else it trains in fp32, whatever is asked of the others
    environment: dict = dataclasses.field(default_factory=dict)

    def run(self, bench, job, words, seconds):
        """`words` are added to those of the job."""
        script = PEERS / "mnist" / self.script
        start = (
            torchrun(job.workers, script)
            if self.under_torchrun
            else [sys.executable, str(script), f"--workers={job.workers}"]
        )
        left_out = () if self.knows_precision else ("--precision",)
        own = tuple(word for word in (*job.words, *words) if not word.startswith(left_out))
        shared = [f"--data={bench.mnist}", f"--num-workers={bench.options.num_workers}", "--epochs=100000"]
        return train_script(
            [*start, *shared], dataclasses.replace(job, words=own), seconds, bench.folder, self.environment
        )


PEERS_OF_MNIST = {
    "plain": Peer("plain.py", "PyTorch DDP as the guides write it, under torchrun; in fp32 always", knows_precision=False),
    "expert": Peer("expert.py", "PyTorch DDP tuned by hand, glibc set to keep memory, too", environment=KEEPS_MEMORY),
    "lightning": Peer("with_lightning.py", "Lightning's Trainer as its guide writes it, without logger, checkpoints and progress bar",
                      under_torchrun=False),
    "accelerate": Peer("with_accelerate.py", "Hugging Face Accelerate as its guide writes it, under torchrun"),
}  # fmt: skip


def job_of(options, model="convnet_bn", precision="fp32", **changes):
    settings = {"batch": options.global_batch, "steps": options.steps, "warm_up": options.warm_up, "workers": options.workers,
                "threads": options.threads, "device": options.device}  # fmt: skip
    return Job(**{**settings, **mnist(model, precision), **changes})


def ours(bench, job, name="ddprun", words=(), environment=None, look=None):
    job = dataclasses.replace(job, overrides=(*job.overrides, *words))
    return Side(name, lambda seconds: bench.ddprun.train(job, seconds, environment, look))


def theirs(bench, job, peer, name="", words=()):
    return Side(name or peer, lambda seconds: PEERS_OF_MNIST[peer].run(bench, job, words, seconds))


def beside(bench, job, figures, goals, our_words=(), their_words=()):
    """ddprun and the peers that were asked for. `goals` are {figure: {peer: factor}}; figures without one are compared,
    too."""
    peers = bench.options.peer
    sides = [ours(bench, job, words=our_words), *(theirs(bench, job, peer, words=their_words) for peer in peers)]
    ratios = tuple(
        Ratio("ddprun", peer, figure, goals.get(figure, {}).get(peer)) for figure in figures for peer in peers
    )
    return {"sides": sides, "figures": (*figures, CORRECT), "ratios": ratios}


def in_words(bench):
    options = bench.options
    peers = " ".join(f"{name}: {PEERS_OF_MNIST[name].about}." for name in options.peer)
    return (
        f"MNIST, workers: {options.workers} on {options.device}, threads of each: {options.threads}, global batch "
        f"{options.global_batch}, {options.steps} steps (speed: after the first {options.warm_up}). {peers}"
    )


def warn_of_accuracy(_, made):
    """Where a side in Python has not learnt what ddprun has, the ratios compare different trainings."""
    for case, rounds in made.cases:
        shares = {name: statistics.median(rounds.values(name, "test_correct")) / TEST_IMAGES for name in rounds.results}
        own = shares.get("ddprun", math.nan)
        others = [f"{name} {100 * share:.2f} %" for name, share in shares.items() if abs(share - own) > SAME_ACCURACY]
        if others:
            made.text += f"\n\n**Not the same accuracy**, {case.name}: ddprun {100 * own:.2f} %, {', '.join(others)} of the test images."


def training(bench):
    goals = {
        "fp32": {TRAINING: {"plain": 1.6, "expert": 1.1}, MEMORY: {"plain": 1.7}},
        "bf16": {TRAINING: {"plain": 2.2}, MEMORY: {"plain": 1.7}},
    }
    for model in bench.options.model:
        for precision in bench.options.precision:
            job = job_of(bench.options, model, precision)
            yield Case(
                name=f"{model} {precision}", **beside(bench, job, (TRAINING, FROM_START, MEMORY), goals[precision])
            )


def whole_job(bench):
    for model in bench.options.model:
        for epochs in bench.options.epochs:
            goals = {FIRST_STEP: {"plain": 3.3}, SECONDS: {"plain": 2.5, "expert": 1.5} if epochs == 1 else {}}
            job = job_of(bench.options, model, steps=epochs * math.ceil(IMAGES / bench.options.global_batch))
            yield Case(name=f"{model}, epochs: {epochs}", **beside(bench, job, (FIRST_STEP, SECONDS), goals))


EVALUATIONS, STEPS_BETWEEN = 5, 4


def evaluation(bench):
    """With the median of a run's evaluations."""
    batch = bench.options.global_batch // bench.options.workers
    words = [f"trainer.eval_every={STEPS_BETWEEN}st", f"trainer.eval_batch={batch}"]
    for model in bench.options.model:
        job = job_of(bench.options, model, steps=STEPS_BETWEEN * EVALUATIONS, warm_up=STEPS_BETWEEN)
        case = beside(bench, job, (EVALUATION,), {}, words, [f"--evaluations={EVALUATIONS}"])
        yield Case(
            name=model,
            **{**case, "sides": [Side(side.name, functools.partial(evaluated, side)) for side in case["sides"]]},
        )


def evaluated(side, seconds):
    found = side.run(seconds)
    return {**found, "evaluated_per_second": TEST_IMAGES / found["evaluation_seconds"]}


def evaluation_in_words(bench):
    return (
        f"Each run evaluates the 10,000 test images {EVALUATIONS} times, "
        f"{bench.options.global_batch // bench.options.workers} in a batch, and counts with the median of these: "
        f"ddprun every {STEPS_BETWEEN} steps (from the step's row to that of the evaluation), the scripts one after "
        "the other in the end."
    )


STARTED = [1, 2, 4, 8, 16, 32]


def start(bench):
    largest = {}  # worker of each side so far, bytes
    for workers in STARTED:
        job = job_of(bench.options, workers=workers, threads=1, batch=320, steps=2, warm_up=1)
        sides = [ours(bench, job), theirs(bench, job, "plain", "torchrun, plain script")]
        sides = [Side(side.name, functools.partial(started, side, workers, largest)) for side in sides]
        yield Case(sides, (FIRST_STEP,), (Ratio(sides[0].name, sides[1].name, FIRST_STEP),), f"{workers} workers")


def started(side, workers, largest, seconds):
    if largest.get(side.name, 0) * workers > SHARE_OF_MEMORY * report.free_bytes():
        raise Absent("too large for this machine")
    found = side.run(seconds)
    largest[side.name] = max(largest.get(side.name, 0), found["peak_rss_bytes"])
    return found


CHECKPOINT_EVERY = 20  # steps
HIDDEN = (512, 2048)  # of an mlp: 0.4 and 1.6 million parameters, each with its momentum
SAVES = {"beside training": f"checkpoint.every={CHECKPOINT_EVERY}st checkpoint.async=true",
         "training waits": f"checkpoint.every={CHECKPOINT_EVERY}st checkpoint.async=false"}  # fmt: skip


def saving(bench):
    job = job_of(bench.options, "mlp", warm_up=CHECKPOINT_EVERY // 2)
    for hidden in HIDDEN:
        own = [f"model.hidden={hidden}", "checkpoint.keep=1000"]
        sides = [ours(bench, job, "ddprun, none", own)]
        sides += [ours(bench, job, f"ddprun, {name}", [*own, *words.split()]) for name, words in SAVES.items()]
        sides += [theirs(bench, job, "plain", "plain, none", [f"--hidden={hidden}"]),
                  theirs(bench, job, "plain", "plain, torch.save", [f"--hidden={hidden}", f"--save-every={CHECKPOINT_EVERY}"])]  # fmt: skip
        ratios = (
            *(Ratio(f"ddprun, {name}", "ddprun, none", LOOP) for name in SAVES),
            Ratio("plain, torch.save", "plain, none", LOOP),
        )
        yield Case(sides, (LOOP, WRITTEN), ratios, f"hidden {hidden}")


def saving_in_words(bench):
    return (
        f"{in_words(bench)} An mlp, a checkpoint every {CHECKPOINT_EVERY} steps: seconds of these steps with all that "
        "is between them, and from the end of a step until its checkpoint is written: ddprun's has its digests and is "
        "flushed to the disk, torch.save leaves that to the system."
    )


TABLES = [
    Table("training", "images/s and memory of the same training, beside each peer in Python, by network and precision", training,
          words=in_words, after=warn_of_accuracy),
    Table("job", "the whole command beside each peer in Python: to its first step, and to its end after one epoch and after five", whole_job,
          words=in_words, after=warn_of_accuracy),
    Table("evaluation", "images/s of evaluation alone, beside each peer in Python", evaluation, words=evaluation_in_words),
    Table("start", "command to first step of 1, 2, 4 ... workers on this machine, beside torchrun with the plain script", start),
    Table("saving", "what checkpoints cost training, ddprun's written beside it or with training waiting, and torch.save's", saving,
          words=saving_in_words),
]  # fmt: skip

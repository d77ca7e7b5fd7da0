"""ddprun beside the same training in Python: scripts for MNIST, started as their users start them."""

import dataclasses
import functools

from measure import report
from measure.rounds import Absent, Side
from measure.table import FIRST_STEP, LOSS, MEMORY, SPEED, Case, Ratio, Table
from measure.trainings import KEEPS_MEMORY, PEERS, Job, train, train_script

MODELS = ["convnet_bn", "convnet"]
SHARE_OF_MEMORY = 0.85  # of what is free: no more workers than it holds


@dataclasses.dataclass(frozen=True)
class Peer:
    script: str
    about: str
    under_torchrun: bool = True
    knows_precision: bool = True  # else it trains in fp32, whatever is asked of the others
    environment: dict = dataclasses.field(default_factory=dict)

    def run(self, bench, job, data, seconds):
        start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", job.workers] if self.under_torchrun else []
        command = [bench.python, *start, PEERS / self.script, f"--data={data}"]
        if not self.under_torchrun:
            command.append(f"--workers={job.workers}")
        words = tuple(word for word in job.words if self.knows_precision or not word.startswith("--precision"))
        return train_script(bench, command, dataclasses.replace(job, words=words), seconds, self.environment)


PEERS_OF_MNIST = {
    "plain": Peer("plain.py", "PyTorch DDP as the guides write it, under torchrun; in fp32 always", knows_precision=False),
    "expert": Peer("expert.py", "PyTorch DDP tuned by hand, glibc set to keep memory, too", environment=KEEPS_MEMORY),
    "lightning": Peer("with_lightning.py", "Lightning's Trainer as its guide writes it, without logger, checkpoints and progress bar",
                      under_torchrun=False),
}  # fmt: skip


def job_of(bench, model="convnet_bn", precision="fp32", **changes):
    """The same for ddprun and for the scripts: SGD 0.01 with momentum 0.9."""
    overrides = (f"model={model}", "optimizer.lr=0.01", "optimizer.momentum=0.9", "dataset.validation=0", "~early_stopping",
                 f"trainer.precision={precision}")  # fmt: skip
    job = Job(bench.global_batch, bench.steps, bench.warm_up, overrides=overrides, words=(f"--model={model}", f"--precision={precision}"),
              workers=bench.workers, threads=bench.threads)  # fmt: skip
    return dataclasses.replace(job, **changes)


def ours(bench, job, name="ddprun", words=()):
    job = dataclasses.replace(job, overrides=(*job.overrides, *words))
    return Side(name, functools.partial(train, bench, job))


def theirs(bench, job, peer, name=""):
    return Side(name or peer, lambda seconds: PEERS_OF_MNIST[peer].run(bench, job, bench.mnist, seconds))


def training(bench):
    goals = {
        "fp32": {SPEED: {"plain": 1.6, "expert": 1.1}, MEMORY: {"plain": 1.7}},
        "bf16": {SPEED: {"plain": 2.2}, MEMORY: {"plain": 1.7}},
    }
    for model in bench.model:
        for precision in bench.precision:
            job = job_of(bench, model, precision)
            sides = [ours(bench, job), *(theirs(bench, job, peer) for peer in bench.peer)]
            ratios = tuple(Ratio("ddprun", peer, figure, goal.get(peer)) for figure, goal in goals[precision].items() for peer in bench.peer)
            yield Case(sides, (SPEED, MEMORY, LOSS), ratios, f"{model} {precision}")


def training_in_words(bench):
    peers = " ".join(f"{name}: {PEERS_OF_MNIST[name].about}." for name in bench.peer)
    return (
        f"MNIST, workers: {bench.workers} on {bench.device}, threads of each: {bench.threads}, global batch {bench.global_batch}, "
        f"{bench.steps} steps (speed: after the first {bench.warm_up}). {peers}"
    )


STARTED = [1, 2, 4, 8, 16, 32]


def start(bench):
    largest = {}  # worker of each side so far, bytes
    for workers in STARTED:
        job = job_of(bench, workers=workers, threads=1, batch=320, steps=2, warm_up=1)
        sides = [ours(bench, job), theirs(bench, job, "plain", "torchrun, plain script")]
        sides = [Side(side.name, functools.partial(started, side, workers, largest)) for side in sides]
        yield Case(sides, (FIRST_STEP,), (Ratio(sides[0].name, sides[1].name, FIRST_STEP),), f"{workers} workers")


def started(side, workers, largest, seconds):
    if largest.get(side.name, 0) * workers > SHARE_OF_MEMORY * report.free_bytes():
        raise Absent("too large for this machine")
    found = side.run(seconds)
    largest[side.name] = max(largest.get(side.name, 0), found["peak_rss_bytes"])
    return found


TABLES = [
    Table("training", "images/s and memory of the same training, beside each peer in Python, by network and precision", training,
          words=training_in_words),
    Table("start", "command to first step of 1, 2, 4 ... workers on this machine, beside torchrun with the plain script", start),
]  # fmt: skip

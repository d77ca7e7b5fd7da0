"""A wide residual network on a GPU: beside the guide's script and a tuned one, and with each fast path switched off by its key."""

import dataclasses
import functools
import os

from measure import data
from measure.comparisons.training import Peer, ours
from measure.rounds import Side
from measure.table import LOSS, SPEED, Case, Figure, Ratio, Table
from measure.trainings import KEEPS_MEMORY, Job


@dataclasses.dataclass(frozen=True)
class Sizes:
    """As long as a GPU needs to show its speed."""

    images: int = 49_152  # 48 whole batches: no side has a ragged one
    batch: int = 1024
    steps: int = 144
    warm_up: int = 48
    depth: int = 16
    widen_factor: int = 4
    half: str = "fp16"
    precisions: tuple = ("tf32", "fp32", "fp32_exact")  # beside bf16


# So that the tables are tried; fp16 needs a GPU, as tf32 does.
REHEARSAL = Sizes(256, 32, 6, 2, 10, 1, "bf16", ("fp32",))
PLAIN = Peer("plain.py", "the guide's script, DDP, a DataLoader with page-locked memory")
EXPERT = Peer("expert.py", "tuned by hand", environment=KEEPS_MEMORY)


def sizes_of(bench):
    return REHEARSAL if bench.rehearse or bench.device == "cpu" else Sizes()


@functools.cache
def images(bench):
    """The folder of cifar-100-binary, and whether the images are true ones."""
    return bench.folder / "cifar100", data.lay_out_cifar100(bench.folder / "cifar100", sizes_of(bench).images)


def job_of(bench, precision, overrides=(), words=(), workers=1):
    sizes = sizes_of(bench)
    loaders = min(16, len(os.sched_getaffinity(0))) if bench.device == "cuda" else 1
    settings = (f"model.depth={sizes.depth}", f"model.widen_factor={sizes.widen_factor}", f"dataset.root={images(bench)[0]}",
                "model.dropout=0", "~early_stopping", f"trainer.precision={precision}")  # fmt: skip
    script = ("--model=wide_resnet", f"--depth={sizes.depth}", f"--widen-factor={sizes.widen_factor}", "--lr=0.04",
              "--weight-decay=5e-4", f"--precision={precision}", f"--num-workers={loaders}")  # fmt: skip
    return Job(sizes.batch, sizes.steps, sizes.warm_up, "cifar100_olivia", (*settings, *overrides), (*script, *words),
               workers, threads=0 if bench.device == "cuda" else 1)  # fmt: skip


def theirs(bench, name, peer, job):
    return Side(name, lambda seconds: peer.run(bench, job, images(bench)[0], seconds))


def cases(bench):
    half = sizes_of(bench).half
    sides = [ours(bench, job_of(bench, precision), f"ddprun {precision}") for precision in dict.fromkeys((half, "bf16"))]
    sides.append(theirs(bench, f"plain {half}", PLAIN, job_of(bench, half)))
    for name, words in {"expert bf16": (), "expert bf16, eager": ("--eager",)}.items():
        sides.append(theirs(bench, name, EXPERT, job_of(bench, "bf16", words=words)))
    ratios = (
        Ratio(f"ddprun {half}", f"plain {half}", at_least=2.0),
        Ratio("ddprun bf16", "expert bf16", at_least=1.3),
        Ratio("ddprun bf16", "expert bf16, eager"),
    )
    yield Case(sides, (SPEED, LOSS), ratios, alike=1.25)


def trained(bench):
    """What all sides train."""
    sizes = sizes_of(bench)
    which = "those of the files, over and over" if images(bench)[1] else "RANDOM ones, since CIFAR-100 is not here ($DDPRUN_DATA)"
    return (
        f"WRN-{sizes.depth}-{sizes.widen_factor} on CIFAR-100, batch {sizes.batch}, SGD, {sizes.steps} steps, measured after "
        f"{sizes.warm_up}; {sizes.images:,} training images, the same for all sides: {which}."
    )


def in_words(bench):
    return (
        f"{trained(bench)} plain: {PLAIN.about}, {sizes_of(bench).half} by autocast and GradScaler. expert: bytes on the GPU, augmented "
        "there batch by batch, channels_last, fused SGD, torch.compile with CUDA graphs; eager: the same without torch.compile."
    )


AS_IT_IS = "as it is, bf16"
SWITCHED = (
    "trainer.cuda_graph=off",
    "dataset.resident=host",
    "dataset.resident=off",
    "trainer.memory_format=channels_first",
)
REPLAYED = Figure("replayed_steps", "steps replayed as CUDA graphs")


def fast_paths(bench):
    keys = (*SWITCHED, *(f"trainer.precision={precision}" for precision in sizes_of(bench).precisions))
    sides = [ours(bench, job_of(bench, "bf16"), AS_IT_IS), *(ours(bench, job_of(bench, "bf16", (key,)), key) for key in keys)]
    yield Case(sides, (SPEED, REPLAYED), tuple(Ratio(key, AS_IT_IS) for key in keys))


TABLES = [
    Table("fast_paths_wide_resnet", "fast paths of a wide residual network, each switched off by its key", fast_paths, words=trained,
          on_gpus=True),
    Table("wide_resnet", "the guide's wide residual network on CIFAR-100, beside the guide's script and a tuned one", cases, words=in_words,
          on_gpus=True),
]  # fmt: skip

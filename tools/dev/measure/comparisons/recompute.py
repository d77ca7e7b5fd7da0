"""What trainer.recompute costs and saves: a small GPT whose blocks backward computes again beside one that keeps them."""

import dataclasses

from measure.comparisons.python import MEMORY, ours
from measure.table import SPEED, Case, Ratio, Table
from measure.trainings import Job

SAMPLES = dataclasses.replace(SPEED, text="samples/s")
# glibc gives each freed tensor back, so that what is resident is in use; its page faults take half of the speed.
GIVEN_BACK = {"DDPRUN_ALLOCATOR": "default", "MALLOC_MMAP_THRESHOLD_": "65536"}
BATCH, CONTEXT, LAYERS, WIDTH = 16, 128, 12, 128


def cases(bench):
    steps = max(8, bench.options.steps // 10)
    words = ("~early_stopping", "~schedule", f"model.layers={LAYERS}", f"model.width={WIDTH}", "model.heads=4",
             f"dataset.context={CONTEXT}", "trainer.sanity_batches=0", "trainer.limit_val_batches=1",
             "trainer.limit_test_batches=1", "trainer.eval_batch=1")  # fmt: skip
    job = Job(BATCH, steps, steps // 4, "experiments/text.yaml", words, workers=1, threads=1)
    for name, environment, figures in (
        ("as a worker runs", None, (SAMPLES, MEMORY)),
        ("freed memory given back", GIVEN_BACK, (MEMORY,)),
    ):
        sides = [
            ours(bench, job, side, [f"trainer.recompute={value}"], environment)
            for side, value in (("kept", "off"), ("computed again", "all"))
        ]
        kept, again = (side.name for side in sides)
        yield Case(sides, figures, tuple(Ratio(again, kept, figure) for figure in figures), name)


def in_words(bench):
    return (
        f"The byte-level transformer on text, {LAYERS} layers of {WIDTH}, {BATCH} windows of {CONTEXT} a step, one worker "
        "of one thread: `trainer.recompute=all` beside off."
    )


TABLES = [Table("recompute", "blocks that backward computes again beside those that are kept", cases, words=in_words)]

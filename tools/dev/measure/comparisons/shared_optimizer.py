"""What trainer.shard_optimizer costs and saves: two workers that share the optimizer of a small GPT beside two that do not."""

from measure.comparisons.python import MEMORY, ours
from measure.table import Case, Figure, Ratio, Table
from measure.trainings import Job

STEP = Figure("step_ms", "a step, ms", more_is_better=False)
OPTIMIZER = Figure("optimizer_ms", "of it norms and optimizer", more_is_better=False)
WAIT = Figure("wait_ms", "waiting for the other", more_is_better=False)
FASTER_MUON = 1.5  # times as fast a step of the optimizer, at least
# Layers and width: 85 and 7 million numbers. Muon's matrices are multiplied, which takes far longer than what else there is.
SIZES = {"adamw": (12, 768), "muon": (4, 384)}
BATCH, CONTEXT = 4, 64


def cases(bench):
    for optimizer, (layers, width) in SIZES.items():
        steps = max(8, bench.options.steps // 10)
        words = ("~early_stopping", "~schedule", f"optimizer={optimizer}", f"model.layers={layers}", f"model.width={width}",
                 f"model.heads={width // 64}", f"dataset.context={CONTEXT}", "trainer.sanity_batches=0",
                 "trainer.limit_val_batches=1", "trainer.limit_test_batches=1")  # fmt: skip
        job = Job(BATCH, steps, steps // 4, "experiments/text.yaml", words, workers=2, threads=1)
        phases = lambda run: phases_of(run, steps)  # noqa: B023, E731
        sides = [
            ours(bench, job, name, [f"trainer.shard_optimizer={shared}"], look=phases)
            for name, shared in (("each has all", "false"), ("shared", "true"))
        ]
        alone, shared = (side.name for side in sides)
        faster = FASTER_MUON if optimizer == "muon" else None
        ratios = (Ratio(shared, alone, STEP), Ratio(shared, alone, OPTIMIZER, at_least=faster), Ratio(shared, alone, MEMORY))
        yield Case(sides, (STEP, OPTIMIZER, WAIT, MEMORY), ratios, f"{optimizer}, {layers} layers of {width}")


def phases_of(run_dir, steps):
    """Of a step; the one that warms up counts, too."""
    import ddprun

    summary = ddprun.run(run_dir).summary
    return {f"{phase}_ms": 1e3 * summary[f"{phase}_seconds"] / steps for phase in ("optimizer", "wait")}


def in_words(bench):
    return (
        f"The byte-level transformer on text, {BATCH} windows of {CONTEXT} a step, 2 workers of one thread that share two "
        "cores and talk over loopback: `trainer.shard_optimizer` beside none."
    )


TABLES = [Table("shard_optimizer", "two workers that share the optimizer beside two that do not", cases, words=in_words)]

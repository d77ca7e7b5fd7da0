"""Checks of what several ranks do, on one GPU. Like those in checks.py."""

from gpu.checks import EXACT_FP32, SAME, SMALL, TOLERANCE

STEPS = 50


def two_ranks_on_one_gpu(context):
    """two ranks on one GPU through Gloo: the losses of 50 steps are those of one"""
    context.require_gpu()
    overrides = ["model=mlp", *SAME, *SMALL, f"trainer.max_steps={STEPS}", "optimizer.lr=0.01"]
    first_gpu = {**EXACT_FP32, "CUDA_VISIBLE_DEVICES": "0"}
    alone = context.ddprun.train("one_rank", "digits", overrides, first_gpu).losses()
    run = context.ddprun.train("two_ranks", "digits", [*overrides, "launch.workers=2", "launch.backend=gloo"], first_gpu)
    together, summary = run.losses(), run.summary()
    assert summary["world_size"] == 2, f"{summary['world_size']} ranks trained"
    assert len(alone) == STEPS and alone.keys() == together.keys(), f"{len(alone)} and {len(together)} rows"
    worst = max(abs(alone[step] - together[step]) / abs(alone[step]) for step in alone)
    text = f"the losses differ by {worst:.1e} at most, relative; {1e3 * summary['wait_seconds'] / STEPS:.2f} ms of a step in the exchange"
    assert worst <= TOLERANCE, text
    return text


CHECKS = [two_ranks_on_one_gpu]

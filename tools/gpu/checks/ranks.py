"""Checks of several workers and several GPUs."""

import re

from gpu.checks.context import EXACT_FP32, SAME, SMALL, TOLERANCE, Skip


def more_workers_than_gpus(context):
    """more workers than GPUs are refused with a reason: NCCL cannot share a GPU (two_ranks_on_one_gpu shares one through Gloo)"""
    context.require_gpu()
    workers = len(context.gpus) + 1
    run, process = context.ddprun.start("too_many", "digits", [f"launch.workers={workers}"])
    status = context.ddprun.status(process, 60)
    text = context.ddprun.output("too_many")
    assert status == 2 and "GPU" in text, f"exit code {status}: {text[-200:]}"
    assert not run.folder.exists(), "it left a run folder behind"
    return f"exit code 2: {text.strip().splitlines()[-1][:110]}"


def several_gpus(context):
    """NCCL over all GPUs: the losses of 50 steps are those of one"""
    if len(context.gpus) < 2:
        raise Skip(f"{len(context.gpus)} GPU here")
    overrides = ["model=mlp", *SAME, *SMALL, "trainer.max_steps=50", "optimizer.lr=0.01"]
    alone = context.ddprun.train("one_gpu", "digits", overrides, EXACT_FP32).losses()
    workers = f"launch.workers={len(context.gpus)}"
    together = context.ddprun.train("all_gpus", "digits", [*overrides, workers], EXACT_FP32).losses()
    worst = max(abs(alone[step] - together[step]) / abs(alone[step]) for step in alone)
    text = f"{len(context.gpus)} GPUs; the losses differ by {worst:.1e} at most, relative"
    assert worst <= TOLERANCE, text
    return text


def data_parallel(context):
    """strategy dp over all GPUs: the losses of 50 steps are those of one GPU, and of ddp over all"""
    context.require_gpu()
    gpus = len(context.gpus)
    overrides = ["model=mlp", *SAME, *SMALL, "trainer.max_steps=50", "optimizer.lr=0.01"]
    dp = context.ddprun.train("dp", "digits", [*overrides, "trainer.strategy=dp"], EXACT_FP32).losses()
    found = re.search(r"1 worker on (\d+) GPUs? \(dp\)", context.ddprun.output("dp"))
    assert found and int(found.group(1)) == gpus, f"{gpus} GPUs here, dp used {found.group(1) if found else 'none'}"
    words = []
    for workers in sorted({1, gpus}):
        others = context.ddprun.train(f"beside_dp_{workers}", "digits", [*overrides, f"launch.workers={workers}"], EXACT_FP32)
        worst = max(abs(dp[step] - loss) / abs(loss) for step, loss in others.losses().items())
        assert worst <= TOLERANCE, f"the losses differ by {worst:.1e}, relative, from those of {workers} workers"
        words.append(f"{worst:.1e} from {'ddp over them' if workers > 1 else 'one GPU'}")
    return f"{gpus} in one process; the losses differ at most, relative, by " + ", ".join(words)


def two_ranks_on_one_gpu(context):
    """two ranks on one GPU through Gloo: the losses of 50 steps are those of one"""
    context.require_gpu()
    overrides = ["model=mlp", *SAME, *SMALL, "trainer.max_steps=50", "optimizer.lr=0.01"]
    first_gpu = {**EXACT_FP32, "CUDA_VISIBLE_DEVICES": "0"}
    alone = context.ddprun.train("one_rank", "digits", overrides, first_gpu).losses()
    run = context.ddprun.train("two_ranks", "digits", [*overrides, "launch.workers=2", "launch.backend=gloo"], first_gpu)
    together, summary = run.losses(), run.summary()
    assert summary["world_size"] == 2, f"{summary['world_size']} ranks trained"
    assert len(alone) == 50 and alone.keys() == together.keys(), f"{len(alone)} and {len(together)} rows"
    worst = max(abs(alone[step] - together[step]) / abs(alone[step]) for step in alone)
    text = f"the losses differ by {worst:.1e} at most, relative; {1e3 * summary['wait_seconds'] / 50:.2f} ms of a step in the exchange"
    assert worst <= TOLERANCE, text
    return text

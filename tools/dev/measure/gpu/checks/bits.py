"""Checks of bits: repetitions and resumed runs end with the very same weights."""

from measure.gpu.checks.context import SAME, SMALL, same

KILLED_AT, LONG_RUN_STEPS = 130, 150  # with a checkpoint every 50


def same_bits(context):
    """the same run twice ends with the same bits, and so do one whose worker is exec'ed, and one that is killed and resumed"""
    words = long_run(context)
    made = context.at_once({"again": lambda: context.train("again", words), "once": lambda: context.train("once", words),
                            "execed": lambda: context.train("execed", words, environment={"DDPRUN_START": "exec"}),
                            "killed": lambda: killed_and_resumed(context, "killed", words)})
    for name in ("again", "execed", "killed"):
        same(made[name], made["once"])
    return f"twice, forked and exec'ed, and killed and resumed: {len(made['once'].weights())} bytes of weights"


def everything_resumes(context):
    """fp16 with accumulation, clipping, EMA and a schedule: killed and resumed, the same bits"""
    precision = ["trainer.precision=fp16"] if context.gpus else []
    return same_bits_after_a_kill(context, "everything", [*precision, "trainer.micro_batch=24", "trainer.clip_norm=1",
                                  "trainer.ema_decay=0.99", "schedule={name: cosine, warmup: 20st}"])


def data_parallel_resumes(context):
    """strategy dp with dropout on all GPUs: killed and resumed, the same bits"""
    context.require_gpu()
    return same_bits_after_a_kill(context, "dp_long", ["trainer.strategy=dp"])


def same_bits_after_a_kill(context, name, overrides):
    """The program kills its worker itself, so no run ends before it."""
    words = [*long_run(context), *overrides]
    jobs = {"whole": lambda: context.train(name, words), "cut": lambda: killed_and_resumed(context, f"{name}_cut", words)}
    made = context.at_once(jobs)
    same(made["cut"], made["whole"])
    return f"killed at step {KILLED_AT}, resumed: {LONG_RUN_STEPS} steps with the same bits"


def killed_and_resumed(context, name, words):
    run, process = context.ddprun.start(name, "digits", words, {"DDPRUN_FAULT": f"kill:computing:{KILLED_AT}"})
    status = context.ddprun.status(process, name)
    assert status not in (0, 2), f"the launcher ended with {status}, though its worker was to be killed"
    last = max(run.losses(), default=0)
    assert 0 < last <= KILLED_AT, f"it was to be killed at step {KILLED_AT}, and has rows up to {last}"
    context.ddprun.resume(run)
    return run


def long_run(context):
    model = "model=mlp" if context.rehearse else "model=convnet"
    return [model, *SAME, *SMALL, "trainer.max_epochs=4", f"trainer.max_steps={LONG_RUN_STEPS}", "checkpoint.every=50st"]

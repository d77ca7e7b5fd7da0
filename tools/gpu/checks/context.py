"""What the checks share: the settings of their runs, and how two runs are compared."""

import os
import signal

from gpu.runs import wait_for_step, workers_of

SAME = ["trainer=reproducible", "trainer.log_every=1", "~early_stopping"]
SMALL = ["dataset.train_size=6400", "dataset.val_size=200", "dataset.test_size=200"]
EXACT_FP32 = {"NVIDIA_TF32_OVERRIDE": "0"}  # or convolutions on the GPU round their inputs to 10 bits
TOLERANCE = 2e-3
LONG_RUN_STEPS = 400


class Skip(Exception):
    """The check cannot be made here; the text says why."""


class Context:
    """What the checks work with."""

    def __init__(self, ddprun, gpus, build, options):
        self.ddprun = ddprun
        self.gpus = gpus  # names
        self.build = build
        self.options = options

    def require_gpu(self):
        if not self.gpus:
            raise Skip("no GPU here")


def compare_losses(context, name, model, steps=50, tolerance=TOLERANCE, experiment="digits", data=SMALL):
    context.require_gpu()
    overrides = [*model, *SAME, *data, f"trainer.max_steps={steps}", "optimizer.lr=0.01"]
    on_gpu = context.ddprun.train(f"{name}_gpu", experiment, overrides, EXACT_FP32).losses()
    on_cpu = context.ddprun.train(f"{name}_cpu", experiment, [*overrides, "launch.device=cpu"]).losses()
    assert len(on_cpu) == steps and on_cpu.keys() == on_gpu.keys(), f"{len(on_cpu)} and {len(on_gpu)} rows"
    worst = max(abs(on_gpu[step] - on_cpu[step]) / abs(on_cpu[step]) for step in on_cpu)
    text = f"they differ by {worst:.1e} at most, relative; allowed {tolerance:.0e}"
    assert worst <= tolerance, text
    return text


def same_bits_after_a_kill(context, name, overrides):
    words = [*long_run(context), *overrides]
    whole = context.ddprun.train(name, "digits", words)
    run, process = context.ddprun.start(f"{name}_cut", "digits", words)
    wait_for_step(run, 130, process)
    for pid in workers_of(run):
        os.kill(pid, signal.SIGKILL)
    context.ddprun.status(process, 60)
    context.ddprun.resume(run)
    assert run.losses() == whole.losses(), "the losses differ"
    assert run.weights() == whole.weights(), "the weights differ"
    return f"{LONG_RUN_STEPS} steps with the same bits"


def long_run(context):
    model = ["model=mlp", "launch.threads=1"] if context.ddprun.device == "cpu" else ["model=convnet"]  # a rehearsal
    return [
        *model,
        *SAME,
        *SMALL,
        "trainer.max_epochs=4",
        f"trainer.max_steps={LONG_RUN_STEPS}",
        "checkpoint.every=50st",
    ]

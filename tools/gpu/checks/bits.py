"""Checks of bits: fast paths, repetitions and resumed runs end with the very same weights."""

import os
import signal

from gpu.checks.context import LONG_RUN_STEPS, SAME, SMALL, Skip, long_run, same_bits_after_a_kill
from gpu.runs import Run, wait_for_step, workers_of


def resident_images(context):
    """images that stay on the GPU: the losses of 50 steps are, to the bit, those with batches from the host and from get()"""
    context.require_gpu()
    losses = {}
    for resident in ("auto", "host", "off"):
        overrides = ["model=convnet_bn", *SAME, *SMALL, "trainer.max_steps=50", f"dataset.resident={resident}"]
        losses[resident] = context.ddprun.train(f"resident_{resident}", "digits", overrides).losses()
    assert losses["auto"] == losses["host"] == losses["off"], "the losses differ"
    return f"{len(losses['auto'])} losses alike"


def cuda_graphs(context):
    """steps replayed from CUDA graphs: the losses and the weights have the bits of ordinary steps, after a kill and a resume too"""
    context.require_gpu()
    cases = {"mlp": ["model=mlp"], "convnet": ["model=convnet"], "norms": ["model=convnet_bn", "trainer.precision=bf16"],
             "adam": ["model=mlp", "optimizer=adam", "trainer.precision=fp16", "trainer.clip_norm=1", "trainer.ema_decay=0.99"]}
    words = []
    for name, overrides in cases.items():
        common = [*overrides, *SAME, *SMALL, "trainer.max_epochs=9", "trainer.max_steps=150", "trainer.layout=channels_first",
                  "schedule={name: cosine, warmup: 20st}"]
        ordinary, replayed = (context.ddprun.train(f"graphs_{name}_{mode}", "digits", [*common, f"trainer.cuda_graph={mode}"])
                              for mode in ("off", "on"))
        steps = replayed.summary()["replayed_steps"]
        assert steps > 0, f"{name}: no step was replayed: {replayed.summary()['cuda_graph']}"
        assert replayed.losses() == ordinary.losses(), f"{name}: the losses differ"
        assert replayed.weights() == ordinary.weights(), f"{name}: the losses are the same, the weights differ"
        speed = replayed.summary()["samples_per_second"] / ordinary.summary()["samples_per_second"]
        words.append(f"{name} {steps} steps replayed, {speed:.1f} times the samples/s")
    same_bits_after_a_kill(context, "graphs", ["trainer.cuda_graph=on"])
    return ", ".join(words) + "; resumed with the same bits"


def same_bits(context):
    """the same run twice ends with the same bits"""
    first, second = (context.ddprun.train(name, "digits", long_run(context)) for name in ("same_1", "same_2"))
    assert first.losses() == second.losses(), "the losses differ"
    assert first.weights() == second.weights(), "the losses are the same, the weights differ"
    return f"{LONG_RUN_STEPS} steps, {len(first.weights())} bytes of weights"


def resume_after_kill(context):
    """kill -9 of the worker, then resume: the same bits as the run that was never killed (same_1)"""
    undisturbed = Run(context.ddprun.folder / "same_1")
    if not (undisturbed.folder / "summary.json").exists():
        raise Skip("same_bits left no run to compare with")
    run, process = context.ddprun.start("killed", "digits", long_run(context))
    wait_for_step(run, 130, process)
    for pid in workers_of(run):
        os.kill(pid, signal.SIGKILL)
    status = context.ddprun.status(process, 60)
    assert status not in (0, 2), f"the launcher ended with {status} after its worker was killed"
    killed_at = max(run.losses())
    assert killed_at < LONG_RUN_STEPS, "it was too late to kill it"
    context.ddprun.resume(run)
    assert run.losses() == undisturbed.losses(), "the losses differ"
    assert run.weights() == undisturbed.weights(), "the weights differ"
    return f"killed at step {killed_at}; {LONG_RUN_STEPS} steps with the same bits"


def everything_resumes(context):
    """fp16 with accumulation, clipping, averages and a schedule: stopped and resumed, the same bits"""
    context.require_gpu()
    return same_bits_after_a_kill(context, "everything", ["trainer.precision=fp16", "trainer.micro_batch=24",
                                  "trainer.clip_norm=1", "trainer.ema_decay=0.99", "schedule={name: cosine, warmup: 20st}"])


def data_parallel_resumes(context):
    """strategy dp with dropout on all GPUs: stopped and resumed, the same bits"""
    context.require_gpu()
    return same_bits_after_a_kill(context, "dp_long", ["trainer.strategy=dp"])

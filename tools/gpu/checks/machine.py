"""Checks of what the machine gives: the tests for a GPU, memory, layouts, what is measured."""

import json
import re
import subprocess

from gpu.checks.context import SAME, SMALL, Skip, long_run
from gpu.runs import wait_for_step


def layouts(context):
    """what trainer.layout=auto takes, in float32 and bf16"""
    words = []
    for precision in ("fp32", "bf16"):
        overrides = ["model=convnet_bn", *SMALL, "trainer.max_steps=5", f"trainer.precision={precision}"]
        words.append(f"{precision}: {context.ddprun.train(f'layout_{precision}', 'digits', overrides).summary()['layout']}")
    return ", ".join(words)


def gpu_tests(context):
    """the tests that need a GPU: NCCL with one rank, page-locked batches, memory statistics"""
    context.require_gpu()
    program = context.build / "tests/gpu_test"
    if not program.exists():
        raise Skip("gpu_test was not built")
    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    last = [line for line in done.stdout.splitlines() if "PASSED" in line or "FAILED" in line or "Failure" in line]
    assert done.returncode == 0, "; ".join(last[:5]) or done.stderr[-300:]
    assert "SKIPPED" not in done.stdout, "gpu_test found no GPU: cuInit() or cuDeviceGetCount() fails"
    return last[-1].strip() if last else "passed"


def out_of_memory(context):
    """a batch beyond the GPU's memory is told with what to change; micro_batch=auto trains it"""
    context.require_gpu()
    samples = ["dataset.train_size=65536", "dataset.val_size=64", "dataset.test_size=64", *SAME, "model=wide_resnet",
               "model.depth=16", "model.widen_factor=10", "trainer.global_batch=65536", "trainer.max_steps=1"]
    run, process = context.ddprun.start("oom", "digits", samples)
    status = context.ddprun.status(process, 300)
    text = context.ddprun.output("oom")
    assert status == 1 and "trainer.micro_batch=auto" in text, f"exit code {status}: {text[-300:]}"
    context.ddprun.train("oom_auto", "digits", [*samples, "trainer.micro_batch=auto"])
    found = re.search(r"auto found (\d+) samples", context.ddprun.output("oom_auto"))
    return f"auto found {found.group(1)} samples of 65536" if found else "65536 samples fit at once"


def memory(context):
    """the memory that a worker takes, on the GPU and beside it"""
    context.require_gpu()
    run, process = context.ddprun.start("memory", "digits", long_run(context))
    wait_for_step(run, 100, process)
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    used = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()[0]
    context.ddprun.finish(process, "memory", 100)
    rss = run.summary()["peak_rss_bytes"] / 1e6
    return f"{used} MiB of GPU 0 with its context, {rss:,.0f} MB resident"


def measures(context):
    """the phases of a step have their times, the GPU its memory and load, and a trace its kernels"""
    words = ["trainer.max_steps=200", "trainer.measure_seconds=1", "+profile={steps: 20..30}", "trainer.cuda_graph=off"]
    run = context.ddprun.train("measures", "digits", words)
    row = run.rows("system")[-1]
    phases = {name: row[f"{name}_seconds"] for name in ("data", "forward", "backward", "optimizer")}
    assert all(0 <= seconds <= row["step_seconds"] for seconds in phases.values()), f"{phases} of {row['step_seconds']}"
    assert phases["forward"] > 0 and phases["backward"] > 0, f"{phases}"
    events = json.loads((run.folder / "profile/rank_0_steps_20_30.json").read_text())["traceEvents"]
    assert sum(event["name"] == "forward" for event in events if event.get("cat") == "user_annotation") == 11
    text = ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in phases.items())
    if not context.gpus:
        return text
    assert any(event.get("cat") == "kernel" for event in events), "the trace has no kernel"
    assert row["gpu_memory_bytes"] > 1e6, f"{row}"
    assert 0 <= row["gpu_percent"] <= 100, f"{row}"
    return f"{text}; {row['gpu_memory_bytes'] / 1e6:.0f} MB, {row['gpu_percent']:.0f} % busy"

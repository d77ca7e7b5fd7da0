"""The checks, in the order in which they run. Each returns a line of what it saw; AssertionError is a failure."""

import json
import os
import re
import signal
import subprocess

from gpu.runs import Run, wait_for_step, workers_of

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


def backend_loads(context):
    """the GPU backend loads, and a few steps run on the GPU"""
    context.require_gpu()
    context.ddprun.train("backend", "digits", ["model=mlp", "trainer=smoke", *SMALL])
    found = re.search(r"\d+ workers? on (.*)", context.ddprun.output("backend"))
    assert found, "the console does not say where it trains"
    assert found.group(1).strip() != "cpu", "it trained on the CPU"
    return found.group(1).strip()


def digits_accuracy(context):
    """digits.yaml reaches 97 % of the test images"""
    run = context.ddprun.train("digits", "digits", [])
    summary = run.summary()
    share = summary["test_correct"] / summary["test_total"]
    text = f"{100 * share:.2f} % in {summary['total_seconds']:.1f} s"
    assert share >= 0.97, text
    return text


def mlp_losses(context):
    """mlp: the losses of 50 steps are the CPU's"""
    return compare_losses(context, "mlp", ["model=mlp"])


def convnet_losses(context):
    """convnet without dropout: the losses of 50 steps are the CPU's"""
    return compare_losses(context, "convnet", ["model=convnet", "model.dropout=0"])


def transformer_losses(context):
    """transformer on a text: the losses of 20 steps are the CPU's, and near them in fp16 and bf16"""
    text = ["dataset.size=40000"]
    words = [compare_losses(context, "transformer", [], steps=20, tolerance=1e-2, experiment="text", data=text)]
    exact = Run(context.ddprun.folder / "transformer_cpu").losses()
    for precision in ("fp16", "bf16"):
        run = context.ddprun.train(f"transformer_{precision}", "text",
                                   [*SAME, *text, "trainer.max_steps=20", "optimizer.lr=0.01", f"trainer.precision={precision}"])
        worst = max(abs(run.losses()[step] - exact[step]) / abs(exact[step]) for step in exact)
        assert worst < 0.25, f"{precision} differs by {worst:.1e}"
        words.append(f"{precision} {worst:.1e}")
    return "; ".join(words)


def gan_paints(context):
    """gan: 100 steps in float32 and bf16 keep both players' losses finite, and each evaluation paints"""
    context.require_gpu()
    words = []
    for precision in ("fp32", "bf16"):
        name = f"gan_{precision}"
        run = context.ddprun.train(name, "gan", ["trainer=reproducible", "trainer.log_every=1", *SMALL, "trainer.max_steps=100",
                                                 f"trainer.precision={precision}"])
        rows = run.rows()
        assert len(rows) == 100 and not any("nonfinite" in row for row in rows), f"{precision}: {len(rows)} rows, or one not finite"
        painted = list((run.folder / "images/val").glob("*_step_*.png"))
        assert painted, f"{precision}: nothing was painted"
        words.append(f"{precision}: {rows[-1]['loss_generator']:.2f} and {rows[-1]['loss_discriminator']:.2f}, {len(painted)} paintings")
    return "; ".join(words)


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


def image_networks(context):
    """keras_convnet and wide_resnet, BatchNorm included: the losses of 20 steps are the CPU's"""
    lines = []
    for model in (["model=keras_convnet", "model.dropout=0"], ["model=wide_resnet", "model.depth=10", "model.widen_factor=1"]):
        lines.append(f"{model[0][6:]}: " + compare_losses(context, model[0][6:], model, steps=20, tolerance=2e-2))
    return "; ".join(lines)


def mixed_precision(context):
    """bf16, fp16 and tf32 stay near float32 over 50 steps, and fp16 tells its scale; channels_last changes no meaning"""
    context.require_gpu()
    overrides = ["model=convnet_bn", *SAME, *SMALL, "trainer.max_steps=50", "optimizer.lr=0.01"]
    exact = context.ddprun.train("fp32", "digits", overrides, EXACT_FP32).losses()
    words = []
    for name, changes in {"tf32": [], "bf16": [], "fp16": [], "fp16_last": ["trainer.layout=channels_last"], "bf16_pure": []}.items():
        run = context.ddprun.train(name, "digits", [*overrides, f"trainer.precision={name.removesuffix('_last')}", *changes])
        worst = max(abs(run.losses()[step] - exact[step]) / abs(exact[step]) for step in exact)
        words.append(f"{name} {worst:.1e}")
        assert worst < 0.25, f"{name} differs by {worst:.1e}"
    return "largest relative difference from fp32: " + ", ".join(words)


def resident_images(context):
    """images that stay on the GPU: the losses of 50 steps are, to the bit, those with batches from the host and from get()"""
    context.require_gpu()
    losses = {}
    for resident in ("auto", "host", "off"):
        overrides = ["model=convnet_bn", *SAME, *SMALL, "trainer.max_steps=50", f"dataset.resident={resident}"]
        losses[resident] = context.ddprun.train(f"resident_{resident}", "digits", overrides).losses()
    assert losses["auto"] == losses["host"] == losses["off"], "the losses differ"
    return f"{len(losses['auto'])} losses alike"


def layouts(context):
    """what trainer.layout=auto takes, in float32 and bf16"""
    words = []
    for precision in ("fp32", "bf16"):
        overrides = ["model=convnet_bn", *SMALL, "trainer.max_steps=5", f"trainer.precision={precision}"]
        words.append(f"{precision}: {context.ddprun.train(f'layout_{precision}', 'digits', overrides).summary()['layout']}")
    return ", ".join(words)


def everything_resumes(context):
    """fp16 with accumulation, clipping, averages and a schedule: stopped and resumed, the same bits"""
    context.require_gpu()
    return same_bits_after_a_kill(context, "everything", ["trainer.precision=fp16", "trainer.micro_batch=24",
                                  "trainer.clip_norm=1", "trainer.ema_decay=0.99", "schedule={name: cosine, warmup: 20st}"])


def same_bits_after_a_kill(context, name, overrides):
    words = [*long_run(context), *overrides]
    whole = context.ddprun.train(name, "digits", words)
    run, process = context.ddprun.start(f"{name}_cut", "digits", words)
    wait_for_step(run, 130, process)
    for pid in workers_of(run):
        os.kill(pid, signal.SIGKILL)
    process.wait(60)
    context.ddprun.resume(run)
    assert run.losses() == whole.losses(), "the losses differ"
    assert run.weights() == whole.weights(), "the weights differ"
    return f"{LONG_RUN_STEPS} steps with the same bits"


def out_of_memory(context):
    """a batch beyond the GPU's memory is told with what to change; micro_batch=auto trains it"""
    context.require_gpu()
    samples = ["dataset.train_size=65536", "dataset.val_size=64", "dataset.test_size=64", *SAME, "model=wide_resnet",
               "model.depth=16", "model.widen_factor=10", "trainer.global_batch=65536", "trainer.max_steps=1"]
    run, process = context.ddprun.start("oom", "digits", samples)
    status = process.wait(300)
    text = context.ddprun.output("oom")
    assert status == 1 and "trainer.micro_batch=auto" in text, f"exit code {status}: {text[-300:]}"
    context.ddprun.train("oom_auto", "digits", [*samples, "trainer.micro_batch=auto"])
    found = re.search(r"auto found (\d+) samples", context.ddprun.output("oom_auto"))
    return f"auto found {found.group(1)} samples of 65536" if found else "65536 samples fit at once"


def gpu_tests(context):
    """the tests that need a GPU: NCCL with one rank, page-locked batches, memory statistics"""
    context.require_gpu()
    program = context.build / "tests/gpu_test"
    if not program.exists():
        raise Skip("gpu_test was not built")
    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    last = [line for line in done.stdout.splitlines() if "PASSED" in line or "FAILED" in line or "Failure" in line]
    assert done.returncode == 0, "; ".join(last[:5]) or done.stderr[-300:]
    return last[-1].strip() if last else "passed"


def more_workers_than_gpus(context):
    """more workers than GPUs are refused with a reason: NCCL cannot share a GPU (two_ranks_on_one_gpu shares one through Gloo)"""
    context.require_gpu()
    workers = len(context.gpus) + 1
    run, process = context.ddprun.start("too_many", "digits", [f"launch.workers={workers}"])
    status = process.wait(60)
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


def data_parallel_resumes(context):
    """strategy dp with dropout on all GPUs: stopped and resumed, the same bits"""
    context.require_gpu()
    return same_bits_after_a_kill(context, "dp_long", ["trainer.strategy=dp"])


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


def resume_after_kill(context):
    """kill -9 of the worker, then resume: the same bits as the run that was never killed (same_1)"""
    undisturbed = Run(context.ddprun.folder / "same_1")
    if not (undisturbed.folder / "summary.json").exists():
        raise Skip("same_bits left no run to compare with")
    run, process = context.ddprun.start("killed", "digits", long_run(context))
    wait_for_step(run, 130, process)
    for pid in workers_of(run):
        os.kill(pid, signal.SIGKILL)
    status = process.wait(60)
    assert status not in (0, 2), f"the launcher ended with {status} after its worker was killed"
    killed_at = max(run.losses())
    assert killed_at < LONG_RUN_STEPS, "it was too late to kill it"
    context.ddprun.resume(run)
    assert run.losses() == undisturbed.losses(), "the losses differ"
    assert run.weights() == undisturbed.weights(), "the weights differ"
    return f"killed at step {killed_at}; {LONG_RUN_STEPS} steps with the same bits"


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


CHECKS = [
    backend_loads,
    digits_accuracy,
    mlp_losses,
    convnet_losses,
    image_networks,
    transformer_losses,
    gan_paints,
    mixed_precision,
    resident_images,
    layouts,
    gpu_tests,
    more_workers_than_gpus,
    several_gpus,
    data_parallel,
    cuda_graphs,
    same_bits,
    resume_after_kill,
    everything_resumes,
    data_parallel_resumes,
    out_of_memory,
    memory,
    measures,
]

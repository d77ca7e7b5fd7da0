"""What ddprun's own parts are worth or cost: sides of ddprun alone, with something switched off, or with more
workers."""

import functools
import os

from measure import report, trace
from measure.comparisons.python import MEMORY, job_of, ours
from measure.rounds import Side
from measure.table import SPEED, Case, Figure, Ratio, Table, markdown
from measure.trainings import Job

# --- more workers ----------------------------------------------------------------------------------------------------

WORKERS = {"cpu": [1, 2, 4], "cuda": [1, 2, 4, 8]}
HIDDEN = Figure("hidden", "exchange hidden, %", scale=100)
THREADS = Figure("threads", "threads of each")


def workers(bench):
    """So many workers on all cores; on GPUs each needs one. A trace of some steps of the warm-up tells what hides the
    exchange."""
    options = bench.options
    counts = [
        count for count in WORKERS[options.device] if options.device == "cpu" or count <= max(1, len(report.gpus()))
    ]
    steps = f"{max(1, options.warm_up // 2)}..{max(1, options.warm_up - 1)}"
    words = [f"+profile.steps={steps}", "+profile.ranks=1", "+profile.shapes=true"]
    for model in options.model:
        sides = [workers_side(bench, model, count, words) for count in counts]
        ratios = tuple(Ratio(side.name, sides[0].name) for side in sides[1:])
        yield Case(sides, (SPEED, THREADS, HIDDEN), ratios, model)


def workers_side(bench, model, count, words):
    threads = max(1, len(os.sched_getaffinity(0)) // count)
    look = lambda run_dir: {"threads": threads, "hidden": trace.hidden_share(trace.events_of(run_dir))}  # noqa: E731
    return ours(
        bench, job_of(bench.options, model, workers=count, threads=threads), f"{count} workers", words, look=look
    )


def workers_in_words(bench):
    return (
        f"MNIST, global batch {bench.options.global_batch}, {bench.options.steps} steps on {bench.options.device}; the "
        "threads of all workers together are the cores, where there are so many. Hidden: of the time that the "
        "gradients' exchange takes, the share in which rank 0 still computes, by a trace of some steps."
    )


# --- operations of a step --------------------------------------------------------------------------------------------

SHOWN, TRACED = 16, 20
# The keys that switch each fast path off.
FAST_PATHS = {
    "off": ["trainer.fused_layers=false", "trainer.memory_format=channels_first", "dataset.resident=off"],
    "batches": ["trainer.fused_layers=false", "trainer.memory_format=channels_first"],
    "channels_last": ["trainer.fused_layers=false", "trainer.memory_format=channels_last"],
    "as it is": [],
}
TOGETHER = Figure("together", "ms of a step in operations", 2, more_is_better=False)


def operations(bench):
    options = bench.options
    first, last = options.warm_up + 1, options.warm_up + TRACED
    for model in options.model:
        for precision in options.precision:
            job = job_of(
                options, model, precision, workers=1, threads=1, batch=options.global_batch // 2, steps=last + 1
            )
            sides = [
                ours(bench, job, name, [*words, f"+profile={{steps: {first}..{last}}}"], look=traced)
                for name, words in FAST_PATHS.items()
            ]
            yield Case(
                sides,
                (TOGETHER,),
                tuple(Ratio("as it is", name, TOGETHER) for name in list(FAST_PATHS)[:-1]),
                f"{model} {precision}",
            )


def traced(run_dir):
    found = trace.operations(trace.events_of(run_dir), TRACED)
    return {"operations": found, "together": sum(found.values())}


def each_operation(_, made):
    """A table for each case: a row for each operation of the first round, a column for each side."""
    for case, rounds in filter(lambda one: one[1].results, made.cases):
        columns = {side: results[0]["operations"] for side, results in rounds.results.items()}
        most = {
            name: max(column.get(name, 0) for column in columns.values())
            for column in columns.values()
            for name in column
        }
        shown = sorted(most, key=most.get, reverse=True)[:SHOWN]
        rows = [[name, *(f"{column.get(name, 0):.2f}" for column in columns.values())] for name in shown]
        rest = [sum(column.values()) - sum(column.get(name, 0) for name in shown) for column in columns.values()]
        rows.append(["all others", *(f"{value:.2f}" for value in rest)])
        made.text += f"\n\n{markdown([f'{case.name}, ms', *columns], rows)}"


def operations_in_words(bench):
    return (
        f"One worker with one thread, batch {bench.options.global_batch // 2}: milliseconds of a step in each "
        f"operation without those that it calls, the mean of {TRACED} traced steps; the {SHOWN} that take most in one "
        "of them."
    )


# --- what surrounds a step -------------------------------------------------------------------------------------------

OVERHEAD = Figure("overhead", "overhead, %", 2, 100, more_is_better=False)
OF_A_WORKER = (
    OVERHEAD,
    Figure("step", "step, ms", 2, 1000),
    Figure("data", "waiting for data, ms", 3, 1000),
    Figure("wall_overhead", "by the wall clock, %", 2, 100),
    Figure("helper_cpu_share", "helper threads, %", 1, 100),
)
COMPUTING = Figure("computing", "computation's share of a step", 3)
LEAST_COMPUTING = 0.97  # of a step: the rest adds 3 %


def worker_overhead(bench):
    for model in ("convnet_bn", "convnet", "mlp"):
        job = job_of(bench.options, model, workers=1, batch=bench.options.global_batch // 2)
        sides = [Side("ddprun", functools.partial(overhead, ours(bench, job)))]
        yield Case(sides, OF_A_WORKER, (Ratio("ddprun", figure=COMPUTING, at_least=LEAST_COMPUTING),), model)


def overhead(side, seconds):
    found = side.run(seconds)
    summary = found["summary"]
    steps, compute = summary["steps"], summary["compute_seconds"]
    return {
        **found,
        "step": summary["step_seconds"] / steps,
        "data": summary["data_seconds"] / steps,
        "overhead": summary["step_seconds"] / compute - 1,
        "computing": compute / summary["step_seconds"],
        "wall_overhead": found["loop_seconds"] / (steps - 1) / (compute / steps) - 1,
    }


def overhead_in_words(bench):
    return (
        f"One worker, batch {bench.options.global_batch // 2}. Overhead: the time of its steps over that of their "
        "computation (forward, backward, optimizer), by the worker's own stopwatch. By the wall clock: the time from "
        "the first step's end to the last one's over as many mean computations, which sees what the stopwatch could "
        "miss. Helper threads: their processor time (reading ahead, logging) over the main thread's, over the whole "
        "life of the process."
    )


# --- the allocator ---------------------------------------------------------------------------------------------------

CASES = ["convnet:256", "convnet:1024", "convnet_bn:200", "convnet_bn:1024"]  # model:batch


def allocator(bench):
    options = bench.options
    for case in options.case or CASES:
        model, batch = case.split(":")[0], int(case.split(":")[1])
        steps = max(12, options.allocator_images // batch)
        job = job_of(options, model, workers=1, threads=options.all_threads, batch=batch, steps=steps, warm_up=4)
        sides = [ours(bench, job, "kept"), ours(bench, job, "default", environment={"DDPRUN_ALLOCATOR": "default"})]
        yield Case(sides, (SPEED, MEMORY), (Ratio("kept", "default"),), f"{model}, batch {batch}")


def allocator_in_words(bench):
    return (f"One worker with {bench.options.all_threads} threads on {bench.options.device}. Kept: ddprun's settings, which keep freed memory in "
            "the process; default: DDPRUN_ALLOCATOR=default leaves glibc's own.")  # fmt: skip


# --- rows of every step ----------------------------------------------------------------------------------------------

LOGGED_STEPS = 15_000
LOGGERS = {
    "one row": ["loggers=[jsonl]", f"trainer.log_every={LOGGED_STEPS}"],
    "jsonl": ["loggers=[jsonl]"],
    "csv, jsonl, tensorboard": ["loggers=[csv, jsonl, tensorboard]"],
}
STEP = Figure("step_us", "step, us", more_is_better=False)
IN_THREAD = Figure("thread_us", "training thread, us", 1, more_is_better=False)


def logging(bench):
    words = (
        "model=mlp",
        "model.layers=0",
        "dataset.train_size=2000",
        "dataset.val_size=2",
        "dataset.test_size=2",
        "~early_stopping",
    )
    job = Job(2, LOGGED_STEPS, 1, "experiments/digits.yaml", words, threads=1, device=bench.options.device)
    sides = [Side(name, functools.partial(logged, ours(bench, job, name, own))) for name, own in LOGGERS.items()]
    yield Case(sides, (STEP, IN_THREAD), tuple(Ratio(side.name, "one row", STEP) for side in sides[1:]))


def logged(side, seconds):
    summary = side.run(seconds)["summary"]
    return {
        "step_us": 1e6 * summary["train_seconds"] / LOGGED_STEPS,
        "thread_us": 1e6 * summary["logging_seconds"] / LOGGED_STEPS,
    }


def logging_in_words(_):
    return (
        f"One linear layer on digits, one worker with one thread, {LOGGED_STEPS:,} steps of two images: microseconds "
        "of a step. The loggers write from threads of their own; the last column is what the training thread itself "
        "spends on rows in a step, with the check of each step's loss that it owes in any case."
    )


TABLES = [
    Table("workers", "1, 2, 4 workers, on GPUs 8, too, at the same global batch: images/s, efficiency, and the hidden share of the exchange",
          workers, words=workers_in_words),
    Table("operations", "where a step's time goes, operation by operation, with fast paths switched off one after the other", operations,
          words=operations_in_words, after=each_operation, rounds=lambda _: 1),
    Table("worker_overhead", "what a worker adds to the bare computation of its steps: waiting for data, metrics, logging, progress",
          worker_overhead, words=overhead_in_words),
    Table("allocator", "what ddprun's settings of the memory allocator are worth", allocator, words=allocator_in_words),
    Table("logging", "what rows of metrics cost training, one of every step, at some thousand steps a second", logging, words=logging_in_words),
]  # fmt: skip

"""Table: what a worker adds to the bare computation of its steps: waiting for data, metrics, logging, progress."""

import dataclasses
import shutil
import statistics
import sys
import tempfile

from suite import report, sides

TITLE = "Overhead of a worker over its steps' computation"
TARGET_PERCENT = 3
MODELS = ("convnet_bn", "convnet", "mlp")


def measure(options):
    rows, figures = [], {}
    for model in MODELS:
        job = sides.Job(
            model=model,
            workers=1,
            threads=options.threads,
            global_batch=options.global_batch // 2,
            steps=options.steps,
            warm_up=options.warm_up,
            device=options.device,
        )
        runs = [one_run(options, job) for _ in range(options.pairs)]
        figures[model] = {"job": dataclasses.asdict(job), "runs": runs}
        rows.append(row_of(model, job, runs))
    text = (
        "One worker. Overhead: the time of its steps over that of their computation (forward, backward, optimizer), "
        f"by the worker's own stopwatch; target at most {TARGET_PERCENT} %. By the wall clock: the time from the first "
        "step's end to the last one's over as many mean computations, which sees what the stopwatch could miss. Helper "
        "threads: their processor time (reading ahead, logging) over the main thread's, over the whole life of the "
        f"process. Median of {options.pairs} runs (least .. most).\n\n"
    )
    header = [
        "model",
        "batch",
        "step, ms",
        "waiting for data, ms",
        "overhead, %",
        "by the wall clock, %",
        "helper threads, %",
    ]
    return text + report.markdown(header, rows), figures


def one_run(options, job):
    folder = tempfile.mkdtemp(prefix="ddprun-bench-")
    try:
        result, summary = sides.Ddprun(options.program).run_with_summary(job, folder, options.timeout)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    compute = summary["compute_seconds"] / summary["steps"]
    overhead = summary["step_seconds"] / summary["compute_seconds"] - 1
    print(f"{job.model}: overhead {100 * overhead:.2f} %", file=sys.stderr, flush=True)
    return {
        "step_seconds": summary["step_seconds"] / summary["steps"],
        "compute_seconds": compute,
        "data_seconds": summary["data_seconds"] / summary["steps"],
        "overhead": overhead,
        "wall_overhead": result.loop_seconds / (summary["steps"] - 1) / compute - 1,
        "helper_cpu_share": result.helper_cpu_share,
    }


def row_of(model, job, runs):
    def column(key, digits, scale):
        return report.show([run[key] for run in runs], digits, scale)

    return [
        model,
        job.global_batch,
        f"{1000 * statistics.median(run['step_seconds'] for run in runs):.2f}",
        column("data_seconds", 3, 1000),
        column("overhead", 2, 100),
        column("wall_overhead", 2, 100),
        column("helper_cpu_share", 1, 100),
    ]

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
        "One worker. Computation: forward, backward and optimizer. Overhead: the wall time of the whole loop over the "
        f"computation in it; target at most {TARGET_PERCENT} %. Helper threads: their processor time (reading ahead, logging) over "
        f"the main thread's, counted from the start of the process. Median of {options.pairs} runs (least .. most).\n\n"
    )
    header = ["model", "batch", "step, ms", "waiting for data, ms", "overhead, %", "helper threads, %"]
    return text + report.markdown(header, rows), figures


def one_run(options, job):
    folder = tempfile.mkdtemp(prefix="ddprun-bench-")
    try:
        result, summary = sides.Ddprun(options.program).run_with_summary(job, folder, options.timeout)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    # The loop's wall time after the warm-up, by the time stamps of metrics.jsonl: it sees what the worker's own stopwatch
    # could miss. The larger of the two counts.
    stopwatch = summary["step_seconds"] / summary["compute_seconds"] - 1
    print(f"{job.model}: overhead {100 * stopwatch:.2f} %", file=sys.stderr, flush=True)
    return {
        "step_seconds": summary["step_seconds"] / summary["steps"],
        "wall_step_seconds": job.global_batch / result.images_per_second,
        "compute_seconds": summary["compute_seconds"] / summary["steps"],
        "data_seconds": summary["data_seconds"] / summary["steps"],
        "overhead": stopwatch,
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
        column("helper_cpu_share", 1, 100),
    ]

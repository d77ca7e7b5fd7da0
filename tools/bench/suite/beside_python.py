"""Table: ddprun beside plain Python DDP, the same training."""

import dataclasses
import tempfile

from suite import mnist_data, pairs, report, sides

TITLE = "Beside plain Python DDP"
TARGETS = {"images_per_second": 1.2, "first_step_seconds": 0.3, "peak_rss_bytes": 0.6}
# figure: name, digits, scale, whether more is better
FIGURES = {
    "images_per_second": ("training, images/s", 0, 1, True),
    "images_per_second_from_start": ("the same, from the first step on", 0, 1, True),
    "first_step_seconds": ("command to first step, s", 2, 1, False),
    "peak_rss_bytes": ("resident memory per worker, MB", 0, 1e-6, False),
    "total_seconds": ("whole command, s", 2, 1, False),
}


def measure(options):
    job = sides.Job(
        workers=options.workers,
        threads=options.threads,
        global_batch=options.global_batch,
        steps=options.steps,
        warm_up=options.warm_up,
        device=options.device,
    )
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        python = sides.PlainPython(mnist_data.lay_out(folder), options.num_workers)
        ours, theirs = pairs.alternate([sides.Ddprun(options.program), python], job, options.pairs, options.timeout)
    return summarize(job, ours, theirs)


def summarize(job, ours, theirs):
    figures, rows = {}, []
    for key, (name, digits, scale, more_is_better) in FIGURES.items():
        mine, others = ([getattr(result, key) for result in results] for results in (ours, theirs))
        ratio = report.ratios(mine, others)
        figures[key] = {
            "ddprun": report.spread(mine),
            "python": report.spread(others),
            "ratio": report.spread(ratio),
        }
        target = TARGETS.get(key)
        goal = "" if target is None else f"{'at least' if more_is_better else 'at most'} {target}"
        shown = [report.show(values, digits, scale) for values in (mine, others)]
        rows.append([name, *shown, report.show(ratio, 2), goal])
    for key in ("loss", "test_correct"):
        figures[key] = {
            side: report.spread([getattr(r, key) for r in rs]) for side, rs in (("ddprun", ours), ("python", theirs))
        }
    rows.append(
        ["test images correct", *(report.show([r.test_correct for r in rs]) for rs in (ours, theirs)), "", "alike"]
    )
    text = (
        f"{job.model}, MNIST, workers: {job.workers} on {job.device}, threads of each: {job.threads}, global batch "
        f"{job.global_batch}, {job.steps} steps (speed: after the first {job.warm_up}), {len(ours)} alternating pairs: "
        "median (least .. most); the ratio is taken pair by pair.\n\n"
    )
    table = report.markdown(["", "ddprun", "Python DDP", "ratio", "target"], rows)
    return text + table, {"job": dataclasses.asdict(job), "figures": figures}

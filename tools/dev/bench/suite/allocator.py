"""Table: what ddprun's settings of the memory allocator are worth (DDPRUN_ALLOCATOR=default leaves glibc's own)."""

import dataclasses

from suite import pairs, report, sides

TITLE = "The allocator's settings"
CASES = ["convnet:256", "convnet:1024", "convnet_bn:200", "convnet_bn:1024"]  # model:batch


def measure(options):
    rows, figures = [], {}
    for case in options.case or CASES:
        model, batch = case.split(":")[0], int(case.split(":")[1])
        job = sides.Job(
            model=model,
            workers=1,
            threads=options.all_threads,
            global_batch=batch,
            steps=max(12, options.allocator_images // batch),
            warm_up=4,
            device=options.device,
        )
        both = [
            sides.Ddprun(options.program, name="kept"),
            sides.Ddprun(options.program, {"DDPRUN_ALLOCATOR": "default"}, name="default"),
        ]
        kept, default = pairs.alternate(both, job, options.pairs, options.timeout)
        figures[f"{model}_{batch}"] = figures_of(job, kept, default)
        rows.append([model, batch, *columns(kept, default)])
    text = (
        f"One worker with {options.all_threads} threads on {options.device}. Kept: ddprun's settings, which keep freed "
        f"memory in the process. {options.pairs} alternating pairs, median (least .. most).\n\n"
    )
    header = ["model", "batch", "kept, images/s", "default, images/s", "ratio", "memory kept, MB", "memory default, MB"]
    return text + report.markdown(header, rows), figures


def columns(kept, default):
    fast, slow = ([r.images_per_second for r in results] for results in (kept, default))
    memory = [report.show([r.peak_rss_bytes for r in results], 0, 1e-6) for results in (kept, default)]
    return [report.show(fast), report.show(slow), report.show(report.ratios(fast, slow), 2), *memory]


def figures_of(job, kept, default):
    return {
        "job": dataclasses.asdict(job),
        "kept": [dataclasses.asdict(result) for result in kept],
        "default": [dataclasses.asdict(result) for result in default],
    }

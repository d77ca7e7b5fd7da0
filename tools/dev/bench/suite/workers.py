"""Table: 1, 2, 4 workers, on GPUs 8, too, at the same global batch: images/s, efficiency, and the hidden share of the exchange."""

import dataclasses
import json
import math
import os
import pathlib
import statistics

from suite import comparison, machine, pairs, report, sides

TITLE = "Workers of one machine at the same global batch"
WORKERS = {"cpu": [1, 2, 4], "cuda": [1, 2, 4, 8]}
LEAST_GRADIENTS = 1000  # numbers in a sum of gradients


class Workers(sides.Ddprun):
    """So many workers on all cores; a trace of some steps of the warm-up tells what hides the exchange."""

    def __init__(self, program, workers, warm_up):
        steps = f"{max(1, warm_up // 2)}..{max(1, warm_up - 1)}"
        words = [f"+profile.steps={steps}", "+profile.ranks=1", "+profile.shapes=true"]
        super().__init__(program, name=f"{workers} workers", words=words)
        self.workers = workers
        self.threads = max(1, len(os.sched_getaffinity(0)) // workers)
        self.hidden = []

    def run(self, job, folder, timeout):
        result = super().run(dataclasses.replace(job, workers=self.workers, threads=self.threads), folder, timeout)
        for trace in pathlib.Path(folder).glob("run/profile/rank_0_*.json"):
            self.hidden.append(hidden_share(json.loads(trace.read_text())["traceEvents"]))
        return result


def hidden_share(events):
    """Of the time in which gradients are exchanged, how much the rank computes meanwhile: in backward, or on the GPU."""
    spans = [event for event in events if event.get("ph") == "X"]
    kernels = [event for event in spans if event.get("cat") == "kernel"]
    if kernels:
        computing = [event for event in kernels if "nccl" not in event["name"].lower()]
    else:
        computing = [event for event in spans if event["name"] == "backward"]
    exchange, computing = union(filter(exchanges_gradients, spans)), union(computing)
    total = sum(end - begin for begin, end in exchange)
    return overlap(exchange, computing) / total if total else 0.0


def exchanges_gradients(event):
    """Not the few flags that the ranks agree on in each step."""
    of_gpu = event.get("cat") == "kernel" and "nccl" in event["name"].lower()
    if not of_gpu and event["name"] != "gloo:all_reduce":
        return False
    told = event["args"].get("In msg nelems")
    if told is None and of_gpu:
        return True
    shapes = event["args"].get("Input Dims") or [[]]
    return (math.prod(shapes[0]) if told is None else told) >= LEAST_GRADIENTS


def union(events):
    """Sorted intervals without an overlap."""
    merged = []
    for begin, end in sorted((event["ts"], event["ts"] + event["dur"]) for event in events):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def overlap(some, others):
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in some for b in others)


def counts(device):
    """Of workers: each needs a GPU of its own."""
    return [count for count in WORKERS[device] if device == "cpu" or count <= max(1, len(machine.gpus()))]


def measure(options):
    rows, figures = [], {}
    for model in options.model:
        ways = [Workers(options.program, workers, options.warm_up) for workers in counts(options.device)]
        results = pairs.alternate(ways, comparison.job_of(options, model=model), options.pairs, options.timeout)
        speeds = [[result.images_per_second for result in ones] for ones in results]
        figures[model] = {}
        for way, speed in zip(ways, speeds, strict=True):
            rows.append(row(model, way, speed, speeds[0]))
            figures[model][way.name] = {"images_per_second": speed, "hidden": way.hidden}
    text = (
        f"MNIST, global batch {options.global_batch}, {options.steps} steps on {options.device}; the threads of all workers together are the "
        f"cores, where there are so many. Rounds: {options.pairs}. Median (least .. most). Hidden: of the time that the gradients' exchange "
        "takes, the share in which rank 0 still computes, by a trace of some steps.\n\n"
    )
    header = ["model", "workers", "threads of each", "images/s", "efficiency", "exchange hidden"]
    return text + report.markdown(header, rows), figures


def row(model, way, speed, alone):
    hidden = f"{100 * statistics.median(way.hidden):.0f} %" if way.workers > 1 and way.hidden else ""
    return [model, way.workers, way.threads, report.show(speed), report.show(report.ratios(speed, alone), 2), hidden]

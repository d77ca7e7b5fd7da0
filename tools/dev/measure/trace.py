"""What is read from the traces that ddprun's profiler writes."""

import collections
import json
import math

LEAST_GRADIENTS = 1000  # numbers in a sum of gradients


def events_of(run_dir):
    """Rank 0's."""
    return json.loads(next((run_dir / "profile").glob("rank_0_*.json")).read_text())["traceEvents"]


def hidden_share(events):
    """Of the time in which gradients are exchanged, how much the rank computes meanwhile: in backward, or on the
    GPU."""
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


def operations(events, steps):
    """{operation: milliseconds of a step} without the operations within, which lie inside on the same thread."""
    totals, open_ones = collections.Counter(), collections.defaultdict(list)
    events = (event for event in events if event.get("cat") == "cpu_op")
    for event in sorted(events, key=lambda event: (event["tid"], event["ts"], -event["dur"])):
        stack = open_ones[event["tid"]]
        while stack and event["ts"] >= stack[-1]["ts"] + stack[-1]["dur"]:
            stack.pop()
        if stack:
            totals[stack[-1]["name"]] -= event["dur"]
        totals[event["name"]] += event["dur"]
        stack.append(event)
    return {name: micro / 1000 / steps for name, micro in totals.most_common()}

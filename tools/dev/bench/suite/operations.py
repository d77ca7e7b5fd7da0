"""Table: where a step's time goes, operation by operation, with fast paths switched off one after the other."""

import collections
import json
import pathlib
import tempfile

from suite import process, report, sides

TITLE = "Operations of a step"
SHOWN = 16
STEPS = 20  # that are traced
# The keys that switch each fast path off: the first side has none.
SIDES = {
    "off": ["trainer.fused_layers=false", "trainer.memory_format=channels_first", "dataset.resident=off"],
    "batches": ["trainer.fused_layers=false", "trainer.memory_format=channels_first"],
    "channels_last": ["trainer.fused_layers=false", "trainer.memory_format=channels_last"],
    "as it is": [],
}


def measure(options):
    texts, figures = [], {}
    for model in options.model:
        for precision in options.precision:
            columns = {name: operations(options, model, precision, words) for name, words in SIDES.items()}
            figures[f"{model}_{precision}"] = columns
            texts.append(f"### {model}, {precision}\n\n{in_words(options)}\n\n{table(columns)}")
    return "\n\n".join(texts), figures


def in_words(options):
    return (
        f"One worker with one thread, batch {options.global_batch // 2}: milliseconds of a step in each operation without those "
        f"that it calls, the mean of {STEPS} traced steps; the {SHOWN} that take most in one of them."
    )


def operations(options, model, precision, words):
    """{operation: milliseconds of a step}, of rank 0."""
    first, last = options.warm_up + 1, options.warm_up + STEPS
    job = sides.Job(model=model, precision=precision, workers=1, global_batch=options.global_batch // 2, steps=last + 1,
                    warm_up=options.warm_up)  # fmt: skip
    side = sides.Ddprun(options.program, words=[*words, f"+profile={{steps: {first}..{last}}}"])
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        run_dir = pathlib.Path(folder) / "run"
        process.run(side.command(job, run_dir), {}, folder, options.timeout)
        trace = json.loads(next((run_dir / "profile").glob("rank_0_*.json")).read_text())
    return exclusive(event for event in trace["traceEvents"] if event.get("cat") == "cpu_op")


def exclusive(events):
    """Times without those of the operations within, which lie inside on the same thread."""
    totals, open_ones = collections.Counter(), collections.defaultdict(list)
    for event in sorted(events, key=lambda event: (event["tid"], event["ts"], -event["dur"])):
        stack = open_ones[event["tid"]]
        while stack and event["ts"] >= stack[-1]["ts"] + stack[-1]["dur"]:
            stack.pop()
        if stack:
            totals[stack[-1]["name"]] -= event["dur"]
        totals[event["name"]] += event["dur"]
        stack.append(event)
    return {name: micro / 1000 / STEPS for name, micro in totals.most_common()}


def table(columns):
    most = {name: max(column.get(name, 0) for column in columns.values()) for column in columns.values() for name in column}
    shown = sorted(most, key=most.get, reverse=True)[:SHOWN]
    rows = [[name, *(f"{column.get(name, 0):.2f}" for column in columns.values())] for name in shown]
    rest = [sum(column.values()) - sum(column.get(name, 0) for name in shown) for column in columns.values()]
    rows.append(["all others", *(f"{value:.2f}" for value in rest)])
    rows.append(["together", *(f"{sum(column.values()):.2f}" for column in columns.values())])
    return report.markdown(["operation", *columns], rows)

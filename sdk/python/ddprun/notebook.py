# SPDX-License-Identifier: MIT
"""Shows runs in a notebook: a small table and the curves, in self-contained HTML."""

import html
import math

from ddprun.curves import Curves
from ddprun.errors import UserError

MOST_RUNS = 50  # in a table
MOST_POINTS = 400  # of a line
COLOURS = {"train": "#2f80c8", "val": "#e0761a", "test": "#2a9d6f"}  # told apart on white and on black, by the colour-blind too
BAD, CUT_OFF = "#d03b3b", "#b7791f"
STATUS_COLOURS = {"running": "#2f80c8", **dict.fromkeys(("failed", "unreadable"), BAD)}
STATUS_COLOURS |= dict.fromkeys(("interrupted", "preempted", "elsewhere"), CUT_OFF)
GOOD = "#2a9d6f"
WIDTH, HEIGHT = 340, 190  # of a chart, in pixels
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 24, 34  # its margins
TABLE = "border-collapse:collapse;border:none;margin:0;color:inherit;font-size:inherit"
CELL = "padding:1px 14px 1px 0;text-align:left;vertical-align:top;background:none;border:none"
SHORT = f"{CELL};white-space:nowrap"


def run_html(run):
    """Returns a name, the key facts, and charts of the loss and of the metric that decides about the best."""
    facts = [(name, value) for name, value in facts_of(run) if value]
    rows = "".join(
        f'<tr style="background:none"><td style="{CELL};opacity:.65">{name}</td><td style="{CELL}">{html.escape(value)}</td></tr>'
        for name, value in facts
    )
    charts = "".join(charts_of(run))
    return (
        f'<div><div style="margin-bottom:4px"><b>{html.escape(name_of(run))}</b> &nbsp;{status_html(run.status)}</div>'
        '<div style="display:flex;flex-wrap:wrap;gap:12px;align-items:flex-start">'
        f'<table style="{TABLE}">{rows}</table>{charts}</div></div>'
    )


def runs_html(runs):
    heads = ("run", "status", "best", "steps", "time", "changed")
    shown = list(zip(runs.labels(), runs))[:MOST_RUNS]
    everywhere = set.intersection(*(set(overrides_of(run)) for _, run in shown)) if len(shown) > 1 else set()
    rows = [[html.escape(name), status_html(run.status), *map(html.escape, cells_of(run, everywhere))] for name, run in shown]
    kept = [i for i in range(len(heads)) if i < 2 or any(row[i] for row in rows)]
    styles = [CELL if head == "changed" else SHORT for head in heads]
    lines = [
        "".join(f'<td style="{styles[i]}">{row[i]}</td>' for i in kept)
        for row in [[f"<b>{head}</b>" for head in heads], *rows]
    ]
    body = "".join(f'<tr style="background:none">{line}</tr>' for line in lines)
    more = f" ({MOST_RUNS} are shown)" if len(runs) > MOST_RUNS else ""
    count = f"{len(runs)} run{'s' if len(runs) != 1 else ''}{more} in {html.escape(str(runs.folder))}"
    table = f'<table style="{TABLE}">{body}</table>' if rows else ""
    return f'<div><div style="margin-bottom:4px">{count}</div>{table}</div>'


def status_html(status):
    return f'<span style="color:{STATUS_COLOURS.get(status, GOOD)}">{html.escape(status.replace("_", " "))}</span>'


# Words


def name_of(run):
    try:
        return run.name
    except UserError:  # its config.yaml is broken; a table of runs is not for that
        return run.path.name


def facts_of(run):
    summary = run.summary
    yield "ended", summary.get("stop_reason")
    yield "best", best_text(run)
    if summary.get("best_step") != summary.get("steps"):
        yield "test, best", test_text(summary, "best")
    yield "test, last", test_text(summary, "metrics")
    yield "steps", steps_text(run)
    yield "time", time_text(summary.get("total_seconds"))
    workers = summary.get("world_size")
    yield "workers", str(workers) if workers else ""
    yield "changed", cut(" ".join(run.overrides), 200)
    yield "folder", str(run.path)


def cells_of(run, everywhere):
    """Returns the overrides on its command line that not all of them have; or why they cannot be read."""
    try:
        changed = " ".join(text for text in run.overrides if text not in everywhere)
        return best_text(run), steps_text(run), time_text(run.summary.get("total_seconds")), cut(changed, 100)
    except UserError as error:
        return "", "", "", str(error)


def overrides_of(run):
    try:
        return run.overrides
    except UserError:  # cells_of() says so
        return []


def cut(text, most):
    return text if len(text) <= most else text[: most - 1] + "…"


def goal(run):
    """Returns the experiment's criterion for the best checkpoint."""
    try:
        return run.config["checkpoint"]["monitor"]
    except (KeyError, TypeError, UserError):
        return "val/accuracy"


def best_text(run):
    best = run.summary.get("best") or {}
    names = (goal(run), "val/loss", *(name for name in best if not name.startswith("test/")))
    name = next((name for name in names if name in best), None)
    return f"{name} {number_text(name, best[name])}" if name and best[name] is not None else ""


def test_text(summary, which):
    """Returns the test among the `metrics`, of the last checkpoint, or among those of the `best`; empty without one."""
    metrics, total = summary.get(which) or {}, summary.get("test_total")
    share, loss = metrics.get("test/accuracy"), metrics.get("test/loss")
    if share is not None and total:
        return f"{round(share * total):,} of {total:,} correct ({100 * share:.2f} %)"
    return f"loss {loss:.4g}" if loss is not None else ""


def number_text(name, value):
    return f"{100 * value:.2f} %" if name.endswith("accuracy") else f"{value:.4g}"


def steps_text(run):
    summary = run.summary
    if summary:
        epochs = round(summary.get("epochs", 0), 2)
        return f"{summary.get('steps', 0):,} ({epochs:g} epoch{'s' if epochs != 1 else ''})"
    rows = run.rows()
    return f"{rows[-1]['step']:,} so far" if rows else ""


def time_text(seconds):
    if not seconds:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {seconds} s"


# Charts


def charts_of(run):
    """Returns charts of the loss and of the best metric, each with a line for every split that has it."""
    curves = Curves(run)
    for name in dict.fromkeys(("loss", goal(run).partition("/")[2])):
        splits = [split for split in COLOURS if f"{split}/{name}" in curves.metrics]
        if splits:
            yield chart(name, {split: curves.curve(f"{split}/{name}", "step") for split in splits})


def chart(name, lines):
    """Returns one SVG; {split: ([x...], [y...])}."""
    xs = [x for line in lines.values() for x in line[0]]
    ys = [y for line in lines.values() for y in line[1] if math.isfinite(y)]
    across, up = Scale(0, max(xs), LEFT, WIDTH - RIGHT), Scale(min(ys, default=0), max(ys, default=1), HEIGHT - BOTTOM, TOP)
    parts = [grid(across, up, name), legend(name, lines)]
    parts += [line_svg(split, *line, across, up) for split, line in lines.items()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{html.escape(name)}" font-family="sans-serif" font-size="11" fill="currentColor">{"".join(parts)}</svg>'
    )


class Scale:
    """Maps numbers to pixels, with marks at round numbers."""

    def __init__(self, low, high, begin, end):
        if low == high:
            low, high = low - (abs(low) / 10 or 1), high + (abs(high) / 10 or 1)
        self.low, self.high, self.begin, self.end = low, high, begin, end

    def at(self, value):
        return round(self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin), 1)

    def marks(self, most=5):
        exponent = math.floor(math.log10((self.high - self.low) / most))
        steps = (factor * 10.0 ** (exponent + more) for more in (0, 1) for factor in (1, 2, 5))
        step = next(step for step in steps if (self.high - self.low) / step <= most)
        return [place * step for place in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


def grid(across, up, name):
    parts = []
    for value in up.marks():
        y = up.at(value)
        text = f"{value * 100:g} %" if name.endswith("accuracy") else f"{value:.6g}"
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="currentColor" stroke-opacity=".15"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end" fill-opacity=".7">{text}</text>')
    for value in across.marks():
        if value == int(value):  # no half steps
            text = f"{value / 1000:g}k" if value and across.high >= 10_000 else f"{value:g}"
            x, y = across.at(value), HEIGHT - BOTTOM + 15
            parts.append(f'<text x="{x}" y="{y}" text-anchor="middle" fill-opacity=".7">{text}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 4}" text-anchor="middle" fill-opacity=".7">step</text>')
    return "".join(parts)


def legend(name, lines):
    names = "".join(f'<tspan dx="10" fill="{COLOURS[split]}">{split}</tspan>' for split in lines)
    return f'<text x="{LEFT}" y="13"><tspan font-weight="bold">{html.escape(name.replace("_", " "))}</tspan>{names}</text>'


def line_svg(split, xs, ys, across, up):
    """Draws a line, broken where a value was not finite; a single point is a dot."""
    parts, piece = [], []
    for x, y in [*thinned(xs, ys), (math.nan, math.nan)]:
        if math.isfinite(y):
            piece.append((across.at(x), up.at(y)))
        elif len(piece) == 1:
            parts.append(f'<circle cx="{piece[0][0]}" cy="{piece[0][1]}" r="3" fill="{COLOURS[split]}"/>')
            piece = []
        elif piece:
            points = " ".join(f"{x},{y}" for x, y in piece)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[split]}" stroke-width="1.6" stroke-linejoin="round"/>')
            piece = []
    return "".join(parts)


def thinned(xs, ys):
    """Reduces a long line to the smallest and largest value of each stretch, so that no spike is lost, and what was not finite."""
    points = list(zip(xs, ys))
    if len(points) <= MOST_POINTS:
        return points
    stretch = math.ceil(2 * len(points) / MOST_POINTS)
    kept = []
    for begin in range(0, len(points), stretch):
        finite = [point for point in points[begin : begin + stretch] if math.isfinite(point[1])]
        chosen = {min(finite, key=lambda point: point[1]), max(finite, key=lambda point: point[1])} if finite else set()
        if len(finite) < len(points[begin : begin + stretch]):
            chosen.add(next(point for point in points[begin : begin + stretch] if not math.isfinite(point[1])))
        kept += sorted(chosen, key=lambda point: point[0])
    return kept

# SPDX-License-Identifier: MIT
"""Shows runs in a notebook: one as its report, several as a table, in self-contained HTML."""

import html
import math
import pathlib
import tempfile

from ddprun.curves import goal_of
from ddprun.errors import UserError
from ddprun.program import run_quietly

MOST_RUNS = 50  # in a table
FRAME = "width:100%;height:640px;border:1px solid #8886;border-radius:6px"
BAD, CUT_OFF = "#d03b3b", "#b7791f"
STATUS_COLOURS = {"running": "#2f80c8", **dict.fromkeys(("failed", "unreadable"), BAD)}
STATUS_COLOURS |= dict.fromkeys(("interrupted", "preempted", "elsewhere"), CUT_OFF)
GOOD = "#2a9d6f"
TABLE = "border-collapse:collapse;border:none;margin:0;color:inherit;font-size:inherit"
CELL = "padding:1px 14px 1px 0;text-align:left;vertical-align:top;background:none;border:none"
SHORT = f"{CELL};white-space:nowrap"
LONG = f"{CELL};overflow-wrap:anywhere;min-width:12em"


def run_html(run):
    """Returns a line about the run, and its report in a frame, whose scripts reach nothing of the notebook."""
    head = f"<b>{html.escape(name_of(run))}</b> &nbsp;{status_html(run.status)}"
    try:
        head += f" &nbsp;{html.escape(best_text(run))}"
        body = f'<iframe sandbox="allow-scripts" style="{FRAME}" srcdoc="{html.escape(report_of(run))}"></iframe>'
    except UserError as error:
        body = html.escape(str(error))
    return f'<div><div style="margin-bottom:4px">{head}</div>{body}</div>'


def report_of(run):
    """Returns the page that `ddprun report` makes of it as it is now."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "report.html"
        try:
            run_quietly("report", run.path, "--out", file)
        except UserError as error:
            raise UserError(f"its report could not be made: {error}") from None
        return file.read_text()


def runs_html(runs):
    heads = ("run", "status", "best", "steps", "time", "changed")
    shown = list(zip(runs.labels(), runs))[:MOST_RUNS]
    changes = [overrides_of(run) for _, run in shown]
    everywhere = set.intersection(*map(set, changes)) if len(shown) > 1 else set()
    apart = [" ".join(text for text in one if text not in everywhere) for one in changes]
    rows = [
        [html.escape(name), status_html(run.status), *map(html.escape, cells_of(run, changed))]
        for (name, run), changed in zip(shown, apart)
    ]
    kept = [i for i in range(len(heads)) if i < 2 or any(row[i] for row in rows)]
    styles = [LONG if head == "changed" else SHORT for head in heads]
    lines = [
        "".join(f'<td style="{styles[i]}">{row[i]}</td>' for i in kept)
        for row in [[f"<b>{head}</b>" for head in heads], *rows]
    ]
    body = "".join(f'<tr style="background:none">{line}</tr>' for line in lines)
    more = f" ({MOST_RUNS} are shown)" if len(runs) > MOST_RUNS else ""
    count = f"{len(runs)} run{'s' if len(runs) != 1 else ''}{more} in {html.escape(str(runs.folder))}"
    table = f'<table style="{TABLE}">{body}</table>' if rows else ""
    return f'<div style="overflow-x:auto"><div style="margin-bottom:4px">{count}</div>{table}</div>'


def status_html(status):
    return f'<span style="color:{STATUS_COLOURS.get(status, GOOD)}">{html.escape(status.replace("_", " "))}</span>'


# Words


def name_of(run):
    try:
        return run.name
    except UserError:  # its config.yaml is broken; a table of runs is not for that
        return run.path.name


def cells_of(run, changed):
    """Returns what it measured and `changed`; or why it cannot be read."""
    try:
        return best_text(run), steps_text(run), time_text(run.summary.get("total_seconds")), cut(changed, 100)
    except UserError as error:
        return "", "", "", str(error)


def overrides_of(run):
    """Returns its overrides, but where it was written, and the + and ++, which say nothing of the run."""
    try:
        return [text for one in run.overrides if not (text := one.lstrip("+")).startswith("run.dir=")]
    except UserError:  # cells_of() says so
        return []


def cut(text, most):
    return text if len(text) <= most else text[: most - 1] + "…"


def best_text(run):
    best = run.best
    name = next((name for name in (goal_of(run.config)[0], "val/loss", *best) if name in best), None)
    return f"{name} {number_text(name, best[name])}" if name and math.isfinite(best[name]) else ""


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

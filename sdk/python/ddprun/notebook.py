# SPDX-License-Identifier: MIT
"""Shows runs in a notebook: one as its report, several as a table, in self-contained HTML."""

import html
import pathlib
import subprocess
import tempfile

from ddprun.errors import UserError
from ddprun.program import command

MOST_RUNS = 50  # in a table
FRAME = "width:100%;height:640px;border:1px solid #8886;border-radius:6px"
BAD, CUT_OFF = "#d03b3b", "#b7791f"
STATUS_COLOURS = {"running": "#2f80c8", **dict.fromkeys(("failed", "unreadable"), BAD)}
STATUS_COLOURS |= dict.fromkeys(("interrupted", "preempted", "elsewhere"), CUT_OFF)
GOOD = "#2a9d6f"
TABLE = "border-collapse:collapse;border:none;margin:0;color:inherit;font-size:inherit"
CELL = "padding:1px 14px 1px 0;text-align:left;vertical-align:top;background:none;border:none"
SHORT = f"{CELL};white-space:nowrap"


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
        done = subprocess.run(
            [*command(), "report", str(run.path), "--out", str(file)], capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode != 0:
            raise UserError(f"its report could not be made: {done.stderr.strip()}")
        return file.read_text()


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

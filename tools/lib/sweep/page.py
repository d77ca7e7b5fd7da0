# SPDX-License-Identifier: MIT
"""Writes report.html of a sweep: one file, no script, no network."""

import html

from sweep import charts
from sweep.study import REASON, State, trial_name
from sweep.table import WORDS, number_text, ranked, time_text, value_text
from tooling.durable import write_file

STYLE = """
:root { --text: #1b1f24; --back: #fff; --faint: #d0d7de; --done: #0072b2; --pruned: #d55e00; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --back: #0d1117; --faint: #30363d; --done: #56b4e9; --pruned: #e69f00; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
a { color: var(--done); }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; } .wide { overflow-x: auto; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2), td.reason { text-align: left; }
svg { width: 100%; height: auto; } text { fill: var(--text); font-size: 11px; } text.name { font-weight: 600; }
.grid { stroke: var(--faint); } .axis { stroke: var(--text); } polyline { fill: none; }
.best { stroke: var(--done); stroke-width: 1.5; } .trial { stroke-width: 1.5; }
.trial:hover { stroke-width: 4; opacity: 1 !important; }
.trial.done { stroke: var(--done); } .trial.pruned { stroke: var(--pruned); stroke-dasharray: 4 3; }
circle.done, .bar { fill: var(--done); } circle.pruned { fill: none; stroke: var(--pruned); stroke-width: 1.5; }
"""
HISTORY = "Circles that are not filled were pruned; the line is the best so far."
PARALLEL = "A line for each trial; the better, the darker. Dashed ones were pruned."
IMPORTANCE = "How much each parameter has to do with being among the best (PED-ANOVA)."
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def write_page(study, best, shares):
    file = study.folder / "report.html"
    write_file(file, page_text(study, best, shares))
    return file


def page_text(study, best, shares):
    trials = study.trials()
    title = html.escape(f"Sweep {study.name}")
    parts = [
        f"<h1>{title}</h1><p>{html.escape(headline(study, trials))}</p>",
        best_part(study, best) if best else "",
        section("History", charts.history(study, trials), HISTORY),
        section("Parallel coordinates", charts.parallel(study, trials), PARALLEL),
        section("Importance", charts.importance(shares), IMPORTANCE),
        f"<h2>Trials</h2><div class=wide>{trial_table(study, trials)}</div>",
    ]  # fmt: skip
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><style>{STYLE}</style></head>'
            f"<body>{''.join(parts)}</body></html>\n")  # fmt: skip


def headline(study, trials):
    counts = [f"{sum(one.state == state for one in trials)} {WORDS[state]}" for state in State
              if any(one.state == state for one in trials)]  # fmt: skip
    sweep = study.sweep
    search = f"{sweep.experiment}: {sweep.metric.goal} {sweep.metric.name} by {sweep.method}"
    return f"{search}. {len(trials)} trials: {', '.join(counts)}."


def best_part(study, best):
    words = html.escape(", ".join(best.user_attrs["overrides"]))
    metric = html.escape(study.sweep.metric.name)
    return f"<p>Best: <b>{trial_name(best.number)}</b>, {metric} <b>{number_text(best.value)}</b> with {words}.</p>"


def section(title, chart, note):
    return f"<h2>{title}</h2><p>{note}</p>{chart}" if chart else ""


def trial_table(study, trials):
    paths = [one.path for one in study.sweep.parameters]
    rows = [row("th", ["trial", "status", study.sweep.metric.name, "time", *paths, ""])]
    for one in ranked(trials, study.sweep.metric.maximize):
        note = one.user_attrs.get(REASON, "")
        values = [value_text(one.params.get(path)) for path in paths]
        rows.append(row("td", [linked(study.folder, trial_name(one.number)), WORDS[one.state], number_text(one.value),
                               time_text(one.user_attrs.get("seconds")), *values, note]))  # fmt: skip
    return f"<table>{''.join(rows)}</table>"


def linked(folder, name):
    """Links to the trial's own report if it is on this machine."""
    there = (folder / name / "report.html").is_file()
    return Markup(f'<a href="{name}/report.html">{name}</a>') if there else name


class Markup(str):
    """Text that is already HTML."""


def row(cell, words):
    last = ' class="reason"' if cell == "td" else ""
    cells = [f"<{cell}>{word if isinstance(word, Markup) else html.escape(word)}</{cell}>" for word in words[:-1]]
    return f"<tr>{''.join(cells)}<{cell}{last}>{html.escape(words[-1])}</{cell}></tr>"

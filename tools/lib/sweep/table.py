# SPDX-License-Identifier: MIT
"""Formats the trials as a table for the terminal, the best first."""

import shutil
import textwrap

from sweep.study import REASON, State, trial_name, tried_again

COLUMNS = 80
WORDS = {
    State.COMPLETE: "done",
    State.PRUNED: "pruned",
    State.FAIL: "failed",
    State.RUNNING: "running",
    State.WAITING: "waiting",
}
ORDER = [State.COMPLETE, State.PRUNED, State.RUNNING, State.WAITING, State.FAIL]


def ranked(trials, maximize):
    """Sorts those that were trained to the end first, by their value."""

    def rank(trial):
        worst = trial.value is None
        return ORDER.index(trial.state), worst, 0 if worst else -trial.value if maximize else trial.value, trial.number

    return sorted(trials, key=rank)


def table_text(study, width=None):
    width = width or max(shutil.get_terminal_size((COLUMNS, 24)).columns, COLUMNS)
    trials = ranked(study.trials(), study.sweep.metric.maximize)
    paths = [one.path for one in study.sweep.searched]
    rows = [["TRIAL", "STATUS", study.sweep.metric.name, "TIME", *short_names(paths).values()]]
    rows += [cells(one) + [value_text(one.params.get(path)) for path in paths] for one in trials]
    lines = fitted(rows, width)
    again = tried_again(trials)
    for one in trials:
        if one.state == State.FAIL:
            lines += failure_lines(one, again.get(one.number), width)
    return "\n".join(lines)


def failure_lines(trial, again, width):
    after = f", tried again as {trial_name(again)}" if again is not None else ""
    text = f"{trial_name(trial.number)} failed{after}: {trial.user_attrs.get(REASON, 'nobody knows why')}"
    return textwrap.wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)


def short_names(keys):
    """Returns the last word of each key if that tells them apart; a plugin by its kind."""
    last = {key: key.split(".")[-2 if key.endswith(".plugin") else -1] for key in keys}
    return {key: name if list(last.values()).count(name) == 1 else key for key, name in last.items()}


def cells(trial):
    seconds = trial.user_attrs.get("seconds")
    return [trial_name(trial.number), WORDS[trial.state], number_text(trial.value), time_text(seconds)]


def fitted(rows, width):
    """Keeps as many columns as fit."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    shown = len(widths)
    while shown > 4 and sum(widths[:shown]) + 2 * (shown - 1) > width:
        shown -= 1
    lines = [line(row[:shown], widths).rstrip()[:width] for row in rows]
    left = len(widths) - shown
    return lines + ([f"{left} more parameter{'s' if left > 1 else ''} in report.html"] if left else [])


def line(row, widths):
    """Aligns numbers to the right."""
    cells = [cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
    return "  ".join(cells)


def number_text(value):
    return "" if value is None else f"{value:.5g}"


def value_text(value):
    if isinstance(value, float):
        return f"{value:.5g}"
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def time_text(seconds):
    if seconds is None:
        return ""
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {left:02}s" if minutes else f"{seconds:.1f}s"

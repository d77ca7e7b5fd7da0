# SPDX-License-Identifier: MIT
"""Reads the loggers' files of JSON lines, which may be growing, torn, or of several attempts."""

import json
import math

ABOUT = ("time", "attempt", "split", "epoch", "step", "samples", "nonfinite")  # in a row of metrics.jsonl, beside the metrics
FIRST = ("split", "epoch", "step", "samples")  # of a table's columns; then the metrics
LAST = ("time", "attempt")


def read_lines(file, begin=0, end=None):
    """Returns the objects in a file of JSON lines from byte `begin` on, and the end of the last complete line.

    A line that is being written is left for the next call. What a killed run left torn is skipped. A missing file has
    no lines.
    """
    try:
        with open(file, "rb") as stream:
            stream.seek(begin)
            data = stream.read(None if end is None else end - begin)
    except FileNotFoundError:
        return [], begin
    whole = data[: data.rfind(b"\n") + 1]
    parsed = (parse(line) for line in whole.split(b"\n"))
    return [line for line in parsed if line is not None], begin + len(whole)


def parse(line):
    """Returns None if it is not a whole object."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # also for invalid UTF-8
        return None
    return value if isinstance(value, dict) else None


def standing_rows(rows, kinds=("split",)):
    """Those that count: an attempt that was cut off leaves rows beyond its last checkpoint; the next writes them again.

    When an attempt begins at an earlier step, the rows of the attempts before are void beyond that step; of two with
    the same step and the same `kinds`, the later one counts. Rows keep their order.
    """
    standing = {}
    newest = None
    for row in rows:
        attempt, step = row.get("attempt", 0), row.get("step", 0)
        if newest is not None and attempt > newest:
            standing = {key: other for key, other in standing.items() if key[0] <= step}
        newest = attempt if newest is None else max(newest, attempt)
        key = (step, *(row.get(kind) for kind in kinds))
        standing.pop(key, None)  # a later row also takes a later place
        standing[key] = row
    return list(standing.values())


def metric_names(row):
    return [name for name in row if name not in ABOUT]


def number(value):
    """Returns NaN for null, which a row has for what was not finite."""
    return math.nan if value is None else value


def table_row(row):
    """Orders a row for a table: its position first, then numbers only."""
    return (
        {name: row[name] for name in FIRST if name in row}
        | {name: number(row[name]) for name in metric_names(row)}
        | {name: row[name] for name in LAST if name in row}
    )


def frame(rows):
    """Returns a pandas DataFrame if pandas is installed, otherwise the rows."""
    try:
        import pandas
    except ModuleNotFoundError as error:
        if error.name != "pandas":  # it is installed, but broken
            raise
        return rows
    columns = dict.fromkeys(name for row in rows for name in row if name not in LAST)
    last = [name for name in LAST if any(name in row for row in rows)]
    return pandas.DataFrame(rows, columns=[*columns, *last])

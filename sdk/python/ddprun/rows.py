# SPDX-License-Identifier: MIT
"""Reads the loggers' files of JSON lines, which may be growing, torn, or of several attempts."""

import importlib.util
import json
import math
import os
import sys

from ddprun.errors import UserError
from ddprun.files_below import open_below

MOST_LINE = 64 << 20  # bytes; a longer line is skipped
MOST_SKIPPED = 1 << 30  # a longer one ends the reading: nobody wrote it as a row

ABOUT = ("time", "attempt", "split", "epoch", "step", "samples", "nonfinite")  # in a row of metrics.jsonl, beside the metrics
FIRST = ("split", "epoch", "step", "samples")  # of a table's columns; then the metrics
LAST = ("time", "attempt")


def read_lines(file, begin=0, end=None):
    """Returns the objects in a file of JSON lines from byte `begin` on, and the end of the last complete line.

    A line that is being written is left for the next call. What a killed run left torn is skipped. A missing file has
    no lines.
    """
    stream = open_below(file.parent, file.name)
    if stream is None:
        return [], begin
    objects, reached = [], begin
    with stream:
        stream.seek(begin)
        while line := stream.readline(MOST_LINE):
            size = len(line) if len(line) < MOST_LINE else len(line) + rest_of_line(stream, line, file)
            if not line.endswith(b"\n") and len(line) < MOST_LINE or end is not None and reached + size > end:
                break
            reached += size
            objects.append(parse(line) if size <= MOST_LINE else None)
    return [one for one in objects if one is not None], reached


def rest_of_line(stream, line, file):
    """Passes over the rest of a line that is too long; returns how many bytes it has."""
    size = 0
    while not line.endswith(b"\n") and (block := stream.read(1 << 20)):
        line = block[: block.find(b"\n") + 1] or block
        stream.seek(len(line) - len(block), os.SEEK_CUR)
        size += len(line)
        if size > MOST_SKIPPED:
            raise UserError(f"{file}: a line of more than {MOST_SKIPPED >> 20} MB, and no row of a run is so long")
    return size


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


class Rows(list):
    """A table: a list of rows, which are dictionaries. A slice is one too. A notebook shows it as its DataFrame."""

    def frame(self):
        """Returns it as a pandas DataFrame."""
        columns = dict.fromkeys(name for row in self for name in row if name not in LAST)
        last = [name for name in LAST if any(name in row for row in self)]
        return needed("pandas").DataFrame(list(self), columns=[*columns, *last])

    def __getitem__(self, place):
        found = super().__getitem__(place)
        return Rows(found) if isinstance(place, slice) else found

    def _repr_html_(self):
        return self.frame()._repr_html_() if importlib.util.find_spec("pandas") else None


def needed(module):
    """Imports a module of a package that ddprun does not need itself."""
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is installed, but broken
            raise
        raise UserError(f"this needs {package}: {sys.executable} -m pip install {package}") from None
    return importlib.import_module(module)

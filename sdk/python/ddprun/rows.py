# SPDX-License-Identifier: MIT
"""Rows of what a run measured, and tables of them."""

import importlib
import importlib.util
import math
import sys

from ddprun.errors import UserError

ABOUT = ("time", "attempt", "split", "epoch", "step", "samples", "nonfinite")  # in a row of metrics.jsonl, beside the metrics
FIRST = ("split", "epoch", "step", "samples")  # of a table's columns; then the metrics
LAST = ("time", "attempt")


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
        return frame_html(self)


def frame_html(table):
    """Returns what a notebook shows of something with a frame(), where pandas is installed."""
    return table.frame()._repr_html_() if importlib.util.find_spec("pandas") else None


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

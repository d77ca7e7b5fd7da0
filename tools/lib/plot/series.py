# SPDX-License-Identifier: MIT
"""Turns the curves of runs into the lines of a figure: smoothed, and repetitions with
other seeds as one.
"""

import dataclasses
import math
import statistics
import sys

from ddprun.errors import UserError
from ddprun.terminal import printable

POINTS = 200  # of a mean over runs whose points do not fall together


@dataclasses.dataclass
class Series:
    """One line of a figure, and the band around it if it is a mean."""

    metric: str
    label: str
    x: list
    y: list
    low: list = dataclasses.field(default_factory=list)
    high: list = dataclasses.field(default_factory=list)


def smoothed(values, weight):
    """Returns an exponential moving average that starts at the first value; NaN stays and does not count."""
    result, average, norm = [], 0.0, 0.0
    for value in values:
        if not math.isnan(value):
            average, norm = weight * average + (1 - weight) * value, weight * norm + 1 - weight
        result.append(average / norm if norm and not math.isnan(value) else math.nan)
    return result


def mean_of(curves, metric, label, axis, band):
    """Cuts to where all have a value: a mean over fewer runs at its end would jump."""
    if axis == "time":
        curves = [resampled(curve, curves) for curve in curves]
    tables = [dict(zip(x, y)) for x, y in curves]
    places = [x for x in tables[0] if all(x in table for table in tables)]
    if not places:
        raise UserError(
            f"--group: the runs of {label} have no {axis} of {metric} in common; --x epoch or --x time may help"
        )
    last = max(max(table) for table in tables)
    if axis != "time" and places[-1] < last:
        told = f"{label}, {metric}: shown up to {axis} {places[-1]:g}, where the first run ends, not {last:g}"
        print(f"plot: {printable(told)}", file=sys.stderr)
    columns = [[table[x] for table in tables] for x in places]
    limits = [around(column, band) for column in columns]
    return Series(
        metric,
        f"{label} ({len(curves)} runs)",
        places,
        [statistics.fmean(column) for column in columns],
        [low for low, _ in limits],
        [high for _, high in limits],
    )


def around(values, band):
    if not all(map(math.isfinite, values)):
        return math.nan, math.nan
    if band == "range":
        return min(values), max(values)
    mean, spread = statistics.fmean(values), statistics.stdev(values)
    if band == "sem":
        spread /= math.sqrt(len(values))
    return mean - spread, mean + spread


def resampled(curve, curves):
    """Interpolates at places that all of them reach."""
    first, last = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    places = [first + (last - first) * i / (POINTS - 1) for i in range(POINTS)] if last > first else [first]
    return places, interpolated(places, *curve)


def interpolated(places, x, y):
    values, i = [], 0
    for place in places:
        while i + 1 < len(x) and x[i + 1] < place:
            i += 1
        j = min(i + 1, len(x) - 1)
        share = min(max((place - x[i]) / (x[j] - x[i]), 0), 1) if x[j] > x[i] else 0
        values.append(y[i] + share * (y[j] - y[i]))
    return values

# SPDX-License-Identifier: MIT
"""Turns a line of a run's files into W&B items: one row of its history each, a dictionary
for wandb.log().
"""

import datetime
import math
import sys

from ddprun.rows import ABOUT, read_lines, standing_rows
from ddprun.run_folder import path_below

EVENT_COLUMNS = ["time", "attempt", "epoch", "step", "kind", "text"]


class Items:
    """Makes items. The same lines always give the same items in the same order: the journal relies on it."""

    def __init__(self, wandb, path):
        self.wandb, self.path = wandb, path
        self.images = has_pillow()

    def of(self, batch):
        def lines(name, begin=None):
            if name not in batch.end:
                return []
            return read_lines(self.path / name, batch.begin.get(name, 0) if begin is None else begin, batch.end[name])[
                0
            ]

        rows = standing_rows(lines("metrics.jsonl"))
        tables = standing_rows(lines("tables.jsonl"), ("kind", "split"))
        items = [metrics(row) for row in rows] + [self.table(line) for line in tables]
        if new_events := lines("events.jsonl"):
            items.append(self.events(lines("events.jsonl", 0), new_events[-1]))
        return items

    def table(self, line):
        makers = {
            "confusion": self.confusion,
            "predictions": self.predictions,
            "histograms": self.histograms,
            "ranks": ranks,
        }
        maker = makers.get(line.get("kind"))
        return place(line) | (maker(line) if maker else {})

    def confusion(self, line):
        """Makes the chart of wandb.plot.confusion_matrix from counts."""
        names = line["classes"]
        rows = [
            [truth, guess, count] for truth, counts in zip(names, line["counts"]) for guess, count in zip(names, counts)
        ]
        columns = ["Actual", "Predicted", "nPredictions"]
        title = f"{line['split']}: confusion"
        chart = self.wandb.plot_table(
            vega_spec_name="wandb/confusion_matrix/v1",
            data_table=self.wandb.Table(columns=columns, data=rows),
            fields={name: name for name in columns},
            string_fields={"title": title},
        )
        return {f"{line['split']}/confusion": chart}

    def predictions(self, line):
        names = line.get("classes")
        images = ["image", *(["output"] if any("output" in row for row in line["rows"]) else [])]
        heads = judged_heads(names) if names else value_heads(line["rows"])
        rows = [
            [
                row["id"],
                *(self.image(row.get(kind)) for kind in images),
                *(judged(row, names) if names else [*row["truth"], *row["scores"]]),
            ]
            for row in line["rows"]
        ]
        return {f"{line['split']}/predictions": self.wandb.Table(columns=["id", *images, *heads], data=rows)}

    def image(self, name):
        """Returns None if the sample is not an image, or its file is gone or outside the run's folder: no other may be
        uploaded.
        """
        file = path_below(self.path, name) if self.images and name else None
        return self.wandb.Image(str(file)) if file and file.is_file() else None

    def histograms(self, line):
        values = {}
        for one in line["histograms"]:
            if one["counts"]:
                values[one["name"]] = self.wandb.Histogram(np_histogram=(one["counts"], one["edges"]))
            values[f"{one['name']}/nonfinite"] = one["nonfinite"]
        return values

    def events(self, lines, newest):
        rows = [[time_text(line.get("time")), *(line.get(column) for column in EVENT_COLUMNS[1:])] for line in lines]
        return place(newest) | {"events": self.wandb.Table(columns=EVENT_COLUMNS, data=rows)}


def place(line):
    """Returns a row's positions, any of which can be a chart's x axis."""
    values = {name: line[name] for name in ("step", "epoch", "samples", "attempt") if line.get(name) is not None}
    return values | ({"_timestamp": line["time"]} if "time" in line else {})


def metrics(row):
    nonfinite = row.get("nonfinite", ())
    values = {name: math.nan if name in nonfinite else value for name, value in row.items() if name not in ABOUT}
    return place(row) | {f"{row['split']}/{name}": value for name, value in values.items() if value is not None}


def ranks(line):
    """Returns how far the ranks are apart: hundreds of curves would hide it."""
    values = {}
    for name, column in zip(line["columns"], zip(*line["rows"])):
        if known := [value for value in column if value is not None]:
            values |= {f"ranks/{name}/min": min(known), f"ranks/{name}/max": max(known)}
    return values


def judged_heads(names):
    return ["guess", "truth", "right", *(f"score_{name}" for name in names)]


def judged(row, names):
    truth, guess = row["truth"], row["guess"]
    return [names[guess], names[truth], truth == guess, *row["scores"]]


def value_heads(rows):
    first = rows[0] if rows else {"truth": [], "scores": []}
    return [f"{head}_{i}" for head, values in (("truth", "truth"), ("prediction", "scores")) for i in range(len(first[values]))]


def time_text(seconds):
    return "" if seconds is None else datetime.datetime.fromtimestamp(seconds).isoformat(" ", "seconds")


def has_pillow():
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        print("wandb_follow: pictures are left out, for Pillow is missing (pip install pillow)", file=sys.stderr)
        return False
    return True

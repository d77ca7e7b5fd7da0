# SPDX-License-Identifier: MIT
"""Turns the lines of a run's files into items, which a tracker sends in its own words."""

import dataclasses
import datetime
import math
import pathlib

from ddprun.rows import ABOUT
from ddprun.run_folder import file_in
from follow.journal import FILES
from tooling.rows import read_lines, standing_rows

KINDS = {"metrics.jsonl": ("split",), "tables.jsonl": ("kind", "split")}  # of the rows of a step one of each kind counts
EVENT_COLUMNS = ["time", "attempt", "epoch", "step", "kind", "text"]
MOST_EVENTS = 1000  # in the table of them, which is sent anew with each event


@dataclasses.dataclass
class Table:
    columns: list
    rows: list  # of values; a pathlib.Path is a picture


@dataclasses.dataclass
class Item:
    """A line: where in the run it stands, and what it holds by name ("val/loss", "val/confusion")."""

    place: dict  # step, epoch, samples, attempt: those that are known
    time: float | None = None
    numbers: dict = dataclasses.field(default_factory=dict)  # may be NaN
    tables: dict = dataclasses.field(default_factory=dict)
    confusions: dict = dataclasses.field(default_factory=dict)  # name: (classes, counts by truth and guess)
    histograms: dict = dataclasses.field(default_factory=dict)  # name: (counts, edges)

    @property
    def step(self):
        return int(self.place.get("step", 0))

    @property
    def epoch(self):
        return self.place.get("epoch")

    @property
    def milliseconds(self):
        return int((self.time or 0) * 1000)

    def pictures(self):
        """Yields ("val/predictions/image/17", file)."""
        for name, table in self.tables.items():
            for row in table.rows:
                for column, value in zip(table.columns, row):
                    if isinstance(value, pathlib.Path):
                        yield f"{name}/{column}/{row[0]}", value


def lines_of(path, begin, end=None):
    """Returns {file: lines} of a run between these bytes of each file, and where the last complete ones end."""
    read = {name: read_lines(path / name, begin[name], end and end[name]) for name in FILES}
    return {name: lines for name, (lines, _) in read.items()}, {name: reached for name, (_, reached) in read.items()}


class Items:
    """Makes items, a batch after the other. The same lines always give the same items in the same order: the journal relies
    on it.

    A resumed attempt writes rows again, and trackers cannot take rows back: of those with the same place the first is
    sent. Of those that are there before anything is sent, in the first batch, it is the one that counts.
    """

    def __init__(self, path):
        self.path = path
        self.is_first = True  # the next batch is
        self.known = {name: set() for name in KINDS}  # where the rows stand that were sent
        self.events = []  # the newest
        self.odd = 0  # lines that are not as ddprun writes them: they make no item

    def of(self, lines):
        rows, tables = self.take(lines)
        items = [*self.made(metrics, rows), *self.made(self.table, tables)]
        return items + self.made(lambda line: events(self.events, line), lines["events.jsonl"][-1:])

    def take(self, lines):
        """Returns the new rows of metrics.jsonl, and those of tables.jsonl."""
        self.events = [*self.events, *lines["events.jsonl"]][-MOST_EVENTS:]
        new = [self.new_rows(name, lines[name]) for name in KINDS]
        self.is_first = False
        return new

    def new_rows(self, name, lines):
        known, new = self.known[name], []
        for row in standing_rows(lines, KINDS[name]) if self.is_first else lines:
            place = (row.get("step", 0), *(row.get(kind) for kind in KINDS[name]))
            if place not in known:
                known.add(place)
                new.append(row)
        return new

    def made(self, make, lines):
        """Returns the items of those lines that make one: the folder may be somebody else's."""
        items = []
        for line in lines:
            try:
                items.append(make(line))
            except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
                self.odd += 1
        return items

    def table(self, line):
        item, kind = place(line), line.get("kind")
        if kind == "confusion":
            item.confusions[f"{line['split']}/confusion"] = (line["classes"], line["counts"])
        elif kind == "predictions":
            item.tables[f"{line['split']}/predictions"] = self.predictions(line)
        elif kind == "histograms":
            add_histograms(item, line)
        return item

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
        return Table(["id", *images, *heads], rows)

    def image(self, name):
        """Returns None if the sample is not an image, or its file is gone, a link, or outside the run's folder: none of
        those may be uploaded.
        """
        return file_in(self.path, name) if isinstance(name, str) else None


def place(line):
    values = {name: line[name] for name in ("step", "epoch", "samples", "attempt") if line.get(name) is not None}
    return Item(values, line.get("time"))


def metrics(row):
    item, nonfinite = place(row), row.get("nonfinite", ())
    values = {name: math.nan if name in nonfinite else value for name, value in row.items() if name not in ABOUT}
    item.numbers = {f"{row['split']}/{name}": value for name, value in values.items() if value is not None}
    return item


def add_histograms(item, line):
    for one in line["histograms"]:
        if one["counts"]:
            item.histograms[one["name"]] = (one["counts"], one["edges"])
        item.numbers[f"{one['name']}/nonfinite"] = one["nonfinite"]


def events(lines, newest):
    item = place(newest)
    rows = [[time_text(line.get("time")), *(line.get(column) for column in EVENT_COLUMNS[1:])] for line in lines]
    item.tables["events"] = Table(EVENT_COLUMNS, rows)
    return item


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

# SPDX-License-Identifier: MIT
"""Turns the lines of a run's files into items, which a tracker sends in its own words."""

import dataclasses
import datetime
import math
import pathlib

from ddprun.files_below import regular_below
from ddprun.rows import ABOUT, read_lines, standing_rows

EVENT_COLUMNS = ["time", "attempt", "epoch", "step", "kind", "text"]
MOST_EVENTS = 1000  # in the table of them, which is sent anew with each event


@dataclasses.dataclass
class Table:
    columns: list
    rows: list  # of values; a pathlib.Path is a picture

    def plain_rows(self):
        """Returns the rows with the name of each picture's file in its place."""
        return [[cell.name if isinstance(cell, pathlib.Path) else cell for cell in row] for row in self.rows]


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


class Items:
    """Makes items. The same lines always give the same items in the same order: the journal relies on it."""

    def __init__(self, path):
        self.path = path
        self.events, self.events_end = [], 0  # the newest before this byte of events.jsonl
        self.known = {}  # by file: where rows stand that an earlier batch has, and its end
        self.odd = 0  # lines that are not as ddprun writes them: they make no item

    def of(self, batch):
        def lines(name):
            return read_lines(self.path / name, batch.begin.get(name, 0), batch.end[name])[0] if name in batch.end else []

        rows = self.new_rows("metrics.jsonl", ("split",), lines("metrics.jsonl"), batch)
        tables = self.new_rows("tables.jsonl", ("kind", "split"), lines("tables.jsonl"), batch)
        items = [*self.made(metrics, rows), *self.made(self.table, tables)]
        if new_events := lines("events.jsonl"):
            known = self.events_before(batch.begin.get("events.jsonl", 0))
            self.events, self.events_end = [*known, *new_events][-MOST_EVENTS:], batch.end["events.jsonl"]
            items += self.made(lambda line: events(self.events, line), new_events[-1:])
        return items

    def new_rows(self, name, kinds, lines, batch):
        """Returns the rows that count, but for those of a step that an earlier batch has sent: a resumed attempt writes them
        again, and trackers cannot take rows back.
        """
        rows = standing_rows(lines, kinds)
        begin, key = batch.begin.get(name, 0), lambda row: (row.get("step", 0), *(row.get(kind) for kind in kinds))
        known, end = self.known.get(name, (set(), 0))
        if begin != end:
            known = set(map(key, read_lines(self.path / name, 0, begin)[0]))
        new = [row for row in rows if key(row) not in known]
        self.known[name] = (known | set(map(key, rows)), batch.end.get(name, begin))
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

    def events_before(self, begin):
        if begin != self.events_end:
            self.events = read_lines(self.path / "events.jsonl", 0, begin)[0][-MOST_EVENTS:]
        return self.events

    def table(self, line):
        item, kind = place(line), line.get("kind")
        if kind == "confusion":
            item.confusions[f"{line['split']}/confusion"] = (line["classes"], line["counts"])
        elif kind == "predictions":
            item.tables[f"{line['split']}/predictions"] = self.predictions(line)
        elif kind == "histograms":
            add_histograms(item, line)
        elif kind == "ranks":
            item.numbers |= ranks(line)
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
        return regular_below(self.path, name) if name else None


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

"""A table is data: what it is called, its cases, in each of them the sides and what is compared. `measure` runs the
sides in rounds, and makes text to paste, figures to keep, and targets that are reached or not."""

import dataclasses
import statistics

from measure.rounds import alternate


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number, or a word, that a side's run returns."""

    key: str
    text: str
    digits: int = 0
    scale: float = 1.0
    more_is_better: bool = True

    def show(self, values):
        """A number's median and spread, or the first of words."""
        return str(values[0]) if isinstance(values[0], str) else show(values, self.digits, self.scale)


SPEED = Figure("images_per_second", "images/s")
SECONDS = Figure("seconds", "whole command, s", 2, more_is_better=False)


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How much better `ours` is than `theirs`, both names of sides, and at least should be; without `theirs` its own
    figure counts."""

    ours: str
    theirs: str = ""
    figure: Figure = SPEED
    at_least: float | None = None

    @property
    def what(self):
        return f"{self.ours} over {self.theirs}" if self.theirs else f"{self.ours}: {self.figure.text}"

    def values(self, rounds):
        """Round by round, since both runs of a round met the same machine; None where a side is missing."""
        if not {self.ours, self.theirs or self.ours} <= rounds.results.keys():
            return None
        ours = rounds.values(self.ours, self.figure.key)
        if not self.theirs:
            return ours
        theirs = rounds.values(self.theirs, self.figure.key)
        return ratios(ours, theirs) if self.figure.more_is_better else ratios(theirs, ours)


@dataclasses.dataclass(frozen=True)
class Case:
    """What is run in one go of rounds."""

    sides: list
    figures: tuple  # a column for each; the first is shown as the rounds go
    ratios: tuple = ()
    name: str = ""  # where a table has several


@dataclasses.dataclass(frozen=True)
class Table:
    name: str
    help: str
    cases: object  # called with the bench; yields Cases, one after the other
    words: object = None  # called with the bench; returns what the reader of the figures must know
    after: object = None  # called with the bench and a Made; adds to it
    rounds: object = (
        None  # called with the bench; returns how many are wanted, where it is not the same number as for all
    )
    weight: float = 10  # of the time, relative to other tables
    least: float = 20  # seconds
    needs: str = ""  # the data without which it is not made


@dataclasses.dataclass(frozen=True)
class Target:
    what: str
    values: list  # of each round
    at_least: float

    @property
    def reached(self):
        return statistics.median(self.values) >= self.at_least

    def in_words(self):
        return f"at least {self.at_least:g}: {'reached' if self.reached else 'not reached'}"

    def as_json(self):
        return {"what": self.what, "at_least": self.at_least, "reached": self.reached, **spread(self.values)}


@dataclasses.dataclass
class Made:
    """A table with its figures."""

    title: str
    text: str = ""  # markdown below the title
    cases: list = dataclasses.field(default_factory=list)  # [(Case, Rounds)]; none: nothing was run for it
    targets: list = dataclasses.field(default_factory=list)
    more: dict = dataclasses.field(default_factory=dict)  # figures beside those of the sides

    def in_words(self):
        """One line."""
        words = [
            f"{target.what}: {statistics.median(target.values):.2f}, {target.in_words()}" for target in self.targets
        ]
        if self.cases:
            words.append(
                f"rounds: {min(rounds.done for _, rounds in self.cases)} of "
                f"{max(rounds.wanted for _, rounds in self.cases)}"
            )
            words.extend(f"{side}: {' '.join(why.split())[-200:]}" for side, why in self.missing().items())
        return "; ".join(words) or "calculated"

    def failed(self):
        return any(rounds.failures for _, rounds in self.cases)

    def missing(self):
        """{side: why}"""
        return {label(case, side): why for case, rounds in self.cases for side, why in rounds.missing().items()}

    def markdown(self):
        notes = [f"\nNot measured: {side}: {' '.join(why.split())[-300:]}" for side, why in self.missing().items()]
        return f"### {self.title}\n\n{self.text}\n" + "\n".join(notes)

    def as_json(self):
        return {
            "title": self.title,
            "rounds": min((rounds.done for _, rounds in self.cases), default=0),
            "rounds_wanted": max((rounds.wanted for _, rounds in self.cases), default=0),
            "calculated": not self.cases,
            "targets": [target.as_json() for target in self.targets],
            "missing": self.missing(),
            "figures": {
                **{label(case, side): ones for case, rounds in self.cases for side, ones in rounds.results.items()},
                **self.more,
            },
        }


def measure(table, bench, share):
    made = Made(table.help[:1].upper() + table.help[1:])
    wanted = table.rounds(bench) if table.rounds else bench.wanted
    for case in table.cases(bench):
        first = case.figures[0]
        in_words = lambda found: f"{first.text} {first.show([found[first.key]])}"  # noqa: B023, E731
        made.cases.append((case, alternate(case.sides, share, wanted, bench.most_seconds, in_words)))
    compared, made.targets = ratio_rows(made.cases)
    parts = [table.words(bench) if table.words else "", rounds_in_words(made.cases)]
    made.text = "\n\n".join(filter(None, [" ".join(filter(None, parts)), sides_table(made.cases), compared]))
    if table.after:
        table.after(bench, made)
    return made


def rounds_in_words(cases):
    """Says how many rounds each case has at least. A case that has none is among the sides that were not measured."""
    measured = [rounds for _, rounds in cases if rounds.results]
    if measured:
        return min(measured, key=lambda rounds: rounds.done).in_words()
    return "No side was measured." if cases else ""


def label(case, side):
    return f"{case.name}: {side}" if case.name else side


def sides_table(cases):
    """A row for each side, a column for each figure; cases with other figures get a table of their own."""
    tables = {}
    for case, rounds in cases:
        for side, results in rounds.results.items():
            cells = [
                figure.show(rounds.values(side, figure.key)) if figure.key in results[0] else ""
                for figure in case.figures
            ]
            tables.setdefault(case.figures, []).append([label(case, side), *cells])
    return "\n\n".join(markdown(["", *(figure.text for figure in figures)], rows) for figures, rows in tables.items())


def ratio_rows(cases):
    """Returns the table of the ratios, and those that have a target."""
    rows, targets = [], []
    for case, rounds in cases:
        for ratio in case.ratios:
            values = ratio.values(rounds)
            if values is None:
                continue
            goal = ""
            if ratio.at_least is not None:
                targets.append(Target(label(case, ratio.what), values, ratio.at_least))
                goal = targets[-1].in_words()
            rows.append([label(case, ratio.ours), ratio.theirs, ratio.figure.text, show(values, 2), goal])
    return markdown(["", "beside", "in", "better by a factor of", "target"], rows) if rows else "", targets


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "values": list(values)}


def show(values, digits=0, scale=1.0, unit=""):
    """ "2,137 (2,098 .. 2,201)": median, least and most; of one round its only value."""
    numbers = [f"{value * scale:,.{digits}f}" for value in (statistics.median(values), min(values), max(values))]
    return f"{numbers[0]}{unit}" + (f" ({numbers[1]} .. {numbers[2]})" if len(values) > 1 else "")


def ratios(ours, theirs):
    """Pair by pair: both runs of a pair met the same machine."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])

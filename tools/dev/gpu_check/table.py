"""Formats a table: text to paste, figures to keep, and targets that are reached or not."""

import dataclasses
import statistics

from gpu_check.rounds import Rounds
from suite import report


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
        return {"what": self.what, "at_least": self.at_least, "reached": self.reached, **report.spread(self.values)}


@dataclasses.dataclass
class Table:
    title: str
    text: str  # markdown below the title
    figures: dict
    rounds: Rounds | None = None  # None: nothing was run for it
    targets: list = dataclasses.field(default_factory=list)

    def in_words(self):
        """One line."""
        words = [f"{target.what}: {statistics.median(target.values):.2f}, {target.in_words()}" for target in self.targets]
        if self.rounds:
            words.append(f"rounds: {self.rounds.done} of {self.rounds.wanted}")
            words.extend(f"{side}: {' '.join(why.split())[-200:]}" for side, why in self.missing().items())
        return "; ".join(words) or "calculated"

    def failed(self):
        return bool(self.rounds and self.rounds.failures)

    def missing(self):
        """{side: why}"""
        return {**self.rounds.absent, **self.rounds.failures} if self.rounds else {}

    def markdown(self):
        notes = [f"\nNot measured: {side}: {' '.join(why.split())[-300:]}" for side, why in self.missing().items()]
        return f"### {self.title}\n\n{self.text}\n" + "\n".join(notes)


@dataclasses.dataclass(frozen=True)
class Comparison:
    ours: str  # names of sides
    theirs: str
    at_least: float | None = None


def factors(rounds, comparisons):
    """Returns the rows and their targets; skips sides that failed."""
    rows, targets = [], []
    for one in comparisons:
        if one.ours not in rounds.results or one.theirs not in rounds.results:
            continue
        ours, theirs = ([result.images_per_second for result in rounds.results[name]] for name in (one.ours, one.theirs))
        values = report.ratios(ours, theirs)
        goal = ""
        if one.at_least is not None:
            target = Target(f"{one.ours} over {one.theirs}", values, one.at_least)
            targets.append(target)
            goal = target.in_words()
        rows.append([one.ours, one.theirs, report.show(values, 2), goal])
    return rows, targets


def factors_table(rows):
    return report.markdown(["images/s of", "over those of", "factor", "target"], rows) if rows else ""


def figures_of(rounds):
    """Returns all single values of all sides, for JSON."""
    return {name: [dataclasses.asdict(result) for result in results] for name, results in rounds.results.items()}

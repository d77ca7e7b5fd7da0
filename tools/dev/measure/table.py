"""A table is data: what it is called, its cases, in each of them the sides and what is compared. `measure` runs the
sides in rounds, and makes text to paste, figures to keep, and targets that are reached or not."""

import dataclasses
import statistics

from measure.rounds import alternate


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number that a side's run returns."""

    key: str
    text: str
    digits: int = 0
    scale: float = 1.0
    more_is_better: bool = True

    def show(self, values):
        return show(values, self.digits, self.scale)


SPEED = Figure("images_per_second", "images/s")
MEMORY = Figure("peak_rss_bytes", "resident memory per worker, MB", scale=1e-6, more_is_better=False)
FIRST_STEP = Figure("first_step_seconds", "command to first step, s", 2, more_is_better=False)
LOSS = Figure("loss", "training loss", 3)  # the mean of what was read after the warm-up


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How much better `ours` is than `theirs`, both names of sides, and at least should be."""

    ours: str
    theirs: str
    figure: Figure = SPEED
    at_least: float | None = None

    def values(self, rounds):
        """Round by round, since both runs of a round met the same machine; None where a side is missing."""
        if not {self.ours, self.theirs} <= rounds.results.keys():
            return None
        ours, theirs = (rounds.values(side, self.figure.key) for side in (self.ours, self.theirs))
        better, worse = (ours, theirs) if self.figure.more_is_better else (theirs, ours)
        return [a / b for a, b in zip(better, worse, strict=True)]


@dataclasses.dataclass(frozen=True)
class Case:
    """What is run in one go of rounds."""

    sides: list
    figures: tuple  # a column for each
    ratios: tuple = ()
    name: str = ""  # where a table has several
    alike: float = 2  # times the smallest loss: more is another training. Weights, orders and read batches differ


@dataclasses.dataclass(frozen=True)
class Table:
    name: str
    help: str
    cases: object  # called with the bench; yields Cases, one after the other
    words: object = lambda _: ""  # called with the bench; returns what the reader of the figures must know
    on_gpus: bool = False  # on a CPU it is but tried, with little to train


@dataclasses.dataclass
class Made:
    """A table with its figures."""

    title: str
    text: str  # markdown below the title
    cases: list  # [(Case, Rounds)]
    targets: list  # [{"what", "values" of each round, "at_least", "reached"}]

    def in_words(self):
        """One line."""
        words = [f"{target['what']}: {statistics.median(target['values']):.2f}, {in_words(target)}" for target in self.targets]
        words.append(f"rounds: {min(rounds.done for _, rounds in self.cases)} of {max(rounds.wanted for _, rounds in self.cases)}")
        return "; ".join([*words, *(f"{side}: {' '.join(why.split())[-200:]}" for side, why in self.missing().items())])

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
            "targets": self.targets,
            "missing": self.missing(),
            "figures": {label(case, side): ones for case, rounds in self.cases for side, ones in rounds.results.items()},
        }


def measure(table, bench, share):
    cases = [(case, alternate(case.sides, share, bench.pairs, bench.timeout)) for case in table.cases(bench)]
    compared, targets = ratio_rows(cases)
    parts = [table.words(bench), rounds_in_words(cases), *map(other_losses, *zip(*cases, strict=True))]
    text = "\n\n".join(filter(None, [" ".join(filter(None, parts)), sides_table(cases), compared]))
    return Made(table.help[:1].upper() + table.help[1:], text, cases, targets)


def rounds_in_words(cases):
    """Says how many rounds each case has at least. A case that has none is among the sides that were not measured."""
    measured = [rounds for _, rounds in cases if rounds.results]
    return min(measured, key=lambda rounds: rounds.done).in_words() if measured else "No side was measured."


def other_losses(case, rounds):
    """Where a side has not learnt what another one has, the ratios compare different trainings."""
    losses = {side: statistics.median(rounds.values(side, LOSS.key)) for side in rounds.results if LOSS in case.figures}
    if not losses or max(losses.values()) <= case.alike * min(losses.values()):
        return ""
    return f"**Not the same training**: losses {', '.join(f'{label(case, side)} {loss:.3f}' for side, loss in losses.items())}."


def label(case, side):
    return f"{case.name}: {side}" if case.name else side


def sides_table(cases):
    """A row for each side, a column for each figure; cases with other figures get a table of their own."""
    tables = {}
    for case, rounds in cases:
        for side, results in rounds.results.items():
            cells = [figure.show([one[figure.key] for one in results]) for figure in case.figures]
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
                targets.append({"what": f"{label(case, ratio.ours)} over {ratio.theirs}", "values": values, "at_least": ratio.at_least,
                                "reached": statistics.median(values) >= ratio.at_least})  # fmt: skip
                goal = in_words(targets[-1])
            rows.append([label(case, ratio.ours), ratio.theirs, ratio.figure.text, show(values, 2), goal])
    return markdown(["", "beside", "in", "better by a factor of", "target"], rows) if rows else "", targets


def in_words(target):
    return f"at least {target['at_least']:g}: {'reached' if target['reached'] else 'not reached'}"


def show(values, digits=0, scale=1.0):
    """ "2,137 (2,098 .. 2,201)": median, least and most; of one round its only value."""
    numbers = [f"{value * scale:,.{digits}f}" for value in (statistics.median(values), min(values), max(values))]
    return numbers[0] + (f" ({numbers[1]} .. {numbers[2]})" if len(values) > 1 else "")


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])

"""Runs the sides of a table in turn, A B C, C B A, ..., as many rounds as its share of the time allows."""

import dataclasses
import sys

from gpu_check.budget import OutOfTime
from suite import process


@dataclasses.dataclass(frozen=True)
class Side:
    name: str
    run: object  # called with the most seconds that it may take; returns what was measured


@dataclasses.dataclass
class Rounds:
    wanted: int
    done: int = 0
    results: dict = dataclasses.field(default_factory=dict)  # {side: [of each round]}
    failures: dict = dataclasses.field(default_factory=dict)  # {side: why}; it is left out from then on
    absent: dict = dataclasses.field(default_factory=dict)  # {side: why it could not even be tried}

    def in_words(self):
        short = "" if self.done >= self.wanted else f" of {self.wanted} planned: the time was short"
        return f"Rounds of one run of each side, in turn: {self.done}{short}. Median (least .. most); ratios within a round."


def alternate(sides, share, wanted, most_seconds=120):
    sides, rounds = list(sides), Rounds(wanted)
    for number in share.rounds(wanted):
        results = {}
        try:
            for side in sides if number % 2 == 0 else reversed(sides):
                if side.name not in rounds.failures:
                    run_side(side, share, most_seconds, results, rounds)
        except OutOfTime as reason:
            if number > 0:
                break
            missing = [side.name for side in sides if side.name not in results]
            rounds.absent.update((name, str(reason)) for name in missing if name not in rounds.failures)
        if not results:
            break
        for name, result in results.items():
            rounds.results.setdefault(name, []).append(result)
        rounds.done = number + 1
    for name in rounds.failures:  # a ratio needs both sides of a round
        if len(rounds.results.get(name, [])) < rounds.done:
            rounds.results.pop(name, None)
    return rounds


def run_side(side, share, most_seconds, results, rounds):
    try:
        results[side.name] = side.run(share.timeout(most_seconds))
    except (process.Failed, OSError, KeyError, ValueError) as error:
        share.timeout(most_seconds)  # the end of all time is no failure of its own
        rounds.failures[side.name] = str(error) or type(error).__name__
        print(f"  {side.name} failed: {rounds.failures[side.name][-600:]}", file=sys.stderr, flush=True)
        return
    speed = results[side.name].images_per_second
    print(f"  {rounds.done + 1}/{rounds.wanted} {side.name}: {speed:,.0f} images/s", file=sys.stderr, flush=True)

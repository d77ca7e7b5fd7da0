"""Rounds of sides: A B C, C B A, ..., so that all of them meet the same machine, and as many as the time allows."""

import dataclasses
import subprocess
import sys
import time

from measure import process


class OutOfTime(Exception):
    """Raised if a run does not fit any more."""


class Absent(Exception):
    """A side cannot be measured here, which is no failure of its own; the text says why."""


@dataclasses.dataclass(frozen=True)
class Side:
    name: str
    run: object  # called with the most seconds that it may take; returns its figures, {key: number}


@dataclasses.dataclass
class Rounds:
    wanted: int
    done: int = 0
    results: dict = dataclasses.field(default_factory=dict)  # {side: [figures of each round]}
    failures: dict = dataclasses.field(default_factory=dict)  # {side: why}; it is left out from then on
    absent: dict = dataclasses.field(default_factory=dict)  # {side: why it could not even be tried}

    def values(self, side, key):
        return [figures[key] for figures in self.results[side]]

    def missing(self):
        """{side: why}"""
        return {**self.absent, **self.failures}

    def in_words(self):
        short = "" if self.done >= self.wanted else f" of {self.wanted} planned: the time was short"
        return f"Rounds of one run of each side, in turn: {self.done}{short}. Median (least .. most); ratios within a round."


class Share:
    """The time of one table."""

    def __init__(self, seconds=float("inf"), left=float("inf"), clock=time.monotonic):
        self._clock = clock
        self.end = clock() + seconds  # no round begins that would go beyond it
        self.deadline = clock() + left  # of all: nothing may run on after it

    def rounds(self, wanted):
        """Yields numbers from 0 on. The first always comes; another only if one as long as the longest so far still
        fits."""
        longest = 0.0
        for number in range(wanted):
            began = self._clock()
            if number > 0 and began + longest > self.end:
                return
            yield number
            longest = max(longest, self._clock() - began)

    def timeout(self, most):
        """Returns the seconds for one run."""
        left = self.deadline - self._clock()
        if left < 1:
            raise OutOfTime("the time is used up; --minutes allows more")
        return min(most, left)


def alternate(sides, share, wanted, most_seconds=120):
    """Every other round goes backwards: none always runs first."""
    sides, rounds = list(sides), Rounds(wanted)
    for number in share.rounds(wanted):
        results = {}
        try:
            for side in sides if number % 2 == 0 else reversed(sides):
                if side.name not in rounds.missing():
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
    for name in rounds.missing():  # a ratio needs both sides of a round
        if len(rounds.results.get(name, [])) < rounds.done:
            rounds.results.pop(name, None)
    return rounds


def run_side(side, share, most_seconds, results, rounds):
    began = time.monotonic()
    try:
        results[side.name] = side.run(share.timeout(most_seconds))
    except Absent as reason:
        rounds.absent[side.name] = str(reason)
        return
    except (process.Failed, subprocess.SubprocessError, OSError, AssertionError, KeyError, ValueError) as error:
        share.timeout(most_seconds)  # the end of all time is no failure of its own
        rounds.failures[side.name] = str(error) or type(error).__name__
        print(f"  {side.name} failed: {rounds.failures[side.name][-600:]}", file=sys.stderr, flush=True)
        return
    print(f"  {rounds.done + 1}/{rounds.wanted} {side.name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)

"""Rounds of sides: A B C, C B A, ..., so that all of them meet the same machine, and as many as the time allows."""

import dataclasses
import subprocess
import sys
import time

from measure import process


class OutOfTime(Exception):
    """Raised if a request does not fit any more; the text says what was left."""


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
            raise OutOfTime("the time is used up")
        return min(most, left)


class Budget:
    """Gives each table its share of what is left, so that a slow one takes nothing from later ones. `weights` has all
    tables in their order, {name: what it gets of the time, relative to the others}."""

    def __init__(self, deadline, weights, clock=time.monotonic):
        self._deadline = deadline
        self._waiting = dict(weights)
        self._clock = clock

    def share(self, name, least):
        """Returns a share; time that a table does not use goes to later ones. Raises OutOfTime if not even `least`
        seconds are left."""
        all_weights = sum(self._waiting.values())
        weight = self._waiting.pop(name)
        left = self._deadline - self._clock()
        if left < least:
            raise OutOfTime(f"{max(0, left):.0f} s left, it takes {least:.0f} at least; --minutes allows more")
        return Share(left * weight / all_weights, left, self._clock)


def alternate(sides, share, wanted, most_seconds=120, in_words=str):
    """Every other round goes backwards: none always runs first. `in_words` makes a line of progress of a side's
    figures."""
    sides, rounds = list(sides), Rounds(wanted)
    for number in share.rounds(wanted):
        results = {}
        try:
            for side in sides if number % 2 == 0 else reversed(sides):
                if side.name not in rounds.missing():
                    run_side(side, share, most_seconds, results, rounds, in_words)
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


def run_side(side, share, most_seconds, results, rounds, in_words):
    try:
        results[side.name] = side.run(share.timeout(most_seconds))
    except Absent as reason:
        rounds.absent[side.name] = str(reason)
        return
    except (process.Failed, subprocess.SubprocessError, OSError, KeyError, ValueError) as error:
        share.timeout(most_seconds)  # the end of all time is no failure of its own
        rounds.failures[side.name] = str(error) or type(error).__name__
        print(f"  {side.name} failed: {rounds.failures[side.name][-600:]}", file=sys.stderr, flush=True)
        return
    print(
        f"  {rounds.done + 1}/{rounds.wanted} {side.name}: {in_words(results[side.name])}", file=sys.stderr, flush=True
    )

# SPDX-License-Identifier: MIT
"""How sides are measured: in alternating rounds, within the time of their table."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools/dev"))

from measure import process  # noqa: E402
from measure.rounds import Absent, OutOfTime, Share, Side, alternate  # noqa: E402


class Clock:
    """Stands still but for what is said to take time."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class ShareTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()

    def rounds(self, wanted, share_seconds, round_seconds):
        """How many are made where each takes so long."""
        share = Share(share_seconds, 1000, self.clock)
        seconds = iter(round_seconds)
        done = 0
        for _ in share.rounds(wanted):
            self.clock.now += next(seconds)
            done += 1
        return done

    def test_all_wanted_rounds_are_made_where_they_fit(self):
        self.assertEqual(self.rounds(5, 100, [10] * 5), 5)

    def test_no_round_begins_that_would_go_beyond_the_share(self):
        self.assertEqual(self.rounds(5, 35, [10] * 5), 3)

    def test_the_longest_round_decides(self):
        self.assertEqual(self.rounds(5, 42, [20, 5, 5, 5]), 2)

    def test_the_first_round_is_made_whatever_it_takes(self):
        self.assertEqual(self.rounds(5, 1, [10]), 1)

    def test_a_run_gets_no_more_seconds_than_all_have_left(self):
        share = Share(10, 50, self.clock)
        self.assertEqual(share.timeout(120), 50)
        self.assertEqual(share.timeout(20), 20)
        self.clock.now += 49.5
        with self.assertRaises(OutOfTime):
            share.timeout(20)


class RoundsTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.order = []

    def side(self, name, seconds=1.0, fails_at=None):
        def run(most_seconds):
            self.order.append(name)
            self.clock.now += min(seconds, most_seconds)
            if seconds > most_seconds:
                raise process.Failed(f"no end within {most_seconds} s")
            if self.order.count(name) == fails_at:
                raise process.Failed(f"{name} broke")
            return {"number": len(self.order)}

        return Side(name, run)

    def test_every_other_round_goes_backwards(self):
        rounds = alternate([self.side("a"), self.side("b")], Share(100, 100, self.clock), 3)
        self.assertEqual("".join(self.order), "abbaab")
        self.assertEqual(rounds.done, 3)
        self.assertEqual(rounds.values("a", "number"), [1, 4, 5])

    def test_a_side_that_fails_is_left_out_and_the_others_go_on(self):
        rounds = alternate([self.side("a"), self.side("b", fails_at=2)], Share(100, 100, self.clock), 3)
        self.assertEqual(list(rounds.results), ["a"])
        self.assertEqual(rounds.failures, {"b": "b broke"})
        self.assertEqual(len(rounds.results["a"]), 3)

    def test_a_side_that_fails_in_the_first_round_is_left_out_too(self):
        rounds = alternate([self.side("a", fails_at=1), self.side("b")], Share(), 2)
        self.assertEqual((list(rounds.results), rounds.failures, "".join(self.order)), (["b"], {"a": "a broke"}, "abb"))

    def test_a_side_that_is_not_here_is_told_is_not_asked_again_and_is_no_failure(self):
        def absent(_):
            self.order.append("x")
            raise Absent("too large for this machine")

        rounds = alternate([self.side("a"), Side("x", absent)], Share(), 3)
        self.assertEqual("".join(self.order), "axaa")
        self.assertEqual((rounds.absent, rounds.failures), ({"x": "too large for this machine"}, {}))
        self.assertEqual(rounds.missing(), {"x": "too large for this machine"})

    def test_a_round_that_the_end_of_the_time_cuts_short_does_not_count(self):
        sides = [self.side("a", 5), self.side("b", 5)]
        rounds = alternate(sides, Share(100, 16, self.clock), 3)
        self.assertEqual(rounds.done, 1)
        self.assertEqual({name: len(results) for name, results in rounds.results.items()}, {"a": 1, "b": 1})

    def test_what_does_not_fit_into_the_first_round_is_told_and_is_no_failure(self):
        rounds = alternate([self.side("a", 5), self.side("b", 5)], Share(100, 8, self.clock), 3)
        self.assertEqual((list(rounds.results), list(rounds.absent), rounds.failures), (["a"], ["b"], {}))

    def test_fewer_rounds_than_planned_are_told(self):
        rounds = alternate([self.side("a", 10)], Share(25, 100, self.clock), 5)
        self.assertIn("2 of 5 planned", rounds.in_words())


if __name__ == "__main__":
    unittest.main()

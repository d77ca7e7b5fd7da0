# SPDX-License-Identifier: MIT
"""What a table says: medians with their spread, ratios pair by pair, targets that are missed, sides that failed or have learnt something else."""

import json
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools/dev"))

from measure import process, report, table  # noqa: E402
from measure.rounds import Rounds, Share, Side  # noqa: E402
from measure.table import FIRST_STEP, LOSS, SPEED, Case, Made, Ratio, Table  # noqa: E402
from measure.trainings import Job, figures, train  # noqa: E402

BENCH = types.SimpleNamespace(pairs=3, timeout=60)


def side(name, values, key="images_per_second"):
    """Raises what is an exception."""
    left = iter(values)

    def run(_):
        value = next(left)
        if isinstance(value, Exception):
            raise value
        return {key: value}

    return Side(name, run)


def made_of(case, **changes):
    with mock.patch("builtins.print"):
        return table.measure(Table("t", "a table", lambda _: [case], **changes), BENCH, Share())


class Measured(unittest.TestCase):
    def test_sides_have_medians_with_their_spread_and_ratios_are_of_the_runs_of_one_round(self):
        made = made_of(Case([side("ours", [10, 40, 30]), side("theirs", [5, 10, 10])], (SPEED,), (Ratio("ours", "theirs"),)))
        self.assertIn("| ours | 30 (10 .. 40) |", made.text)
        self.assertIn("| theirs | 10 (5 .. 10) |", made.text)
        self.assertIn("| ours | theirs | images/s | 3.00 (2.00 .. 4.00) |  |", made.text)  # of 2, 4 and 3, not 30 over 10 of the medians

    def test_of_seconds_fewer_are_better(self):
        key = FIRST_STEP.key
        made = made_of(Case([side("ours", [1, 1, 1], key), side("theirs", [2, 3, 4], key)], (FIRST_STEP,), (Ratio("ours", "theirs", FIRST_STEP),)))
        self.assertIn("3.00 (2.00 .. 4.00)", made.text)

    def test_a_target_that_is_missed_is_told(self):
        ratios = (Ratio("ours", "theirs", at_least=1.5), Ratio("ours", "theirs", at_least=4))
        made = made_of(Case([side("ours", [20, 20, 90]), side("theirs", [10, 10, 10])], (SPEED,), ratios))
        self.assertIn("| at least 1.5: reached |", made.text)
        self.assertIn("| at least 4: not reached |", made.text)
        self.assertIn("ours over theirs: 2.00, at least 4: not reached", made.in_words())
        self.assertFalse(made.failed())

    def test_a_side_that_failed_is_told_and_no_figure_is_made_of_what_it_did_before(self):
        sides = [side("ours", [10, 10, 10]), side("theirs", [5, process.Failed("it broke")])]
        made = made_of(Case(sides, (SPEED,), (Ratio("ours", "theirs"),)))
        self.assertTrue(made.failed())
        self.assertIn("Not measured: theirs: it broke", made.markdown())
        self.assertIn("theirs: it broke", made.in_words())
        self.assertNotIn("| theirs", made.text)
        self.assertNotIn("better by a factor", made.text)
        self.assertEqual(made.as_json()["missing"], {"theirs": "it broke"})

    def test_rows_say_of_which_case_they_are(self):
        cases = [Case([side("ours", [1, 1, 1])], (SPEED,), name="mlp"), Case([side("ours", [2, 2, 2])], (SPEED,), name="convnet")]
        with mock.patch("builtins.print"):
            made = table.measure(Table("t", "", lambda _: cases), BENCH, Share())
        self.assertIn("| mlp: ours | 1 (1 .. 1) |\n| convnet: ours | 2 (2 .. 2) |", made.text)

    def test_the_rounds_that_are_told_are_those_of_the_case_with_the_fewest_and_not_of_one_that_failed(self):
        done = [Rounds(3, 0, failures={"ours": "it broke"}), Rounds(3, 3, {"ours": [{}] * 3}), Rounds(3, 2, {"ours": [{}] * 2})]
        cases = [(Case([], (SPEED,)), rounds) for rounds in done]
        self.assertIn("in turn: 2 of 3 planned", table.rounds_in_words(cases))
        self.assertEqual(table.rounds_in_words(cases[:1]), "No side was measured.")

    def test_a_target_is_about_the_median(self):
        for theirs, word in (([10, 10, 2], "reached"), ([10, 10.1, 2], "not reached")):
            made = made_of(Case([side("ours", [9, 10, 10]), side("theirs", theirs)], (SPEED,), (Ratio("ours", "theirs", at_least=1),)))
            self.assertIn(f"| at least 1: {word} |", made.text)

    def test_losses_that_differ_are_told_with_their_sides(self):
        for loss, told in ((2.4, False), (2.6, True)):
            sides = [side("ours", [2.0] * 3, "loss"), side("theirs", [2.0, loss, loss], "loss")]
            made = made_of(Case(sides, (LOSS,), name="convnet", alike=1.25))
            self.assertEqual(f"**Not the same training**: losses convnet: ours 2.000, convnet: theirs {loss:.3f}." in made.text, told)


class Trainings(unittest.TestCase):
    def test_the_speed_and_the_loss_are_those_after_the_warm_up(self):
        found = figures(Job(10, 40, 20), 80.0, {1: 90.0, 20: 100.0, 40: 102.0}, {1: 9.0, 20: 3.0, 30: 2.0, 40: 1.0})
        self.assertEqual(found, {"images_per_second": 100.0, "loss": 1.5, "first_step_seconds": 10.0})

    def test_overrides_of_a_job_come_last(self):
        bench = types.SimpleNamespace(program="ddprun", device="cpu", environment={})
        with tempfile.TemporaryDirectory() as bench.folder, mock.patch("measure.runs.Ddprun.train", side_effect=OSError) as started:
            self.assertRaises(OSError, train, bench, Job(8, 4, 2, overrides=("trainer.log_every=1",)), 60)
        self.assertEqual(started.call_args.args[2][-1], "trainer.log_every=1")


class Report(unittest.TestCase):
    def test_json_has_what_a_figure_needs_to_be_understood(self):
        case = Case([], (SPEED,), (Ratio("ours", "theirs", at_least=3.0),))
        results = {"ours": [{"images_per_second": 20, "loss": float("nan")}, {"images_per_second": 30}], "theirs": [{"images_per_second": 10}] * 2}
        rounds = Rounds(5, 2, results, {}, {"x": "not here"})
        made = Made("A table", "text", [(case, rounds)], table.ratio_rows([(case, rounds)])[1])
        found = json.loads(report.as_json(report.facts("a command", rehearsal=True), {"t": made}))
        self.assertEqual(found.keys(), {"format", "date", "command", "rehearsal", "machine", "tables"})
        self.assertLessEqual({"cpu", "cores", "gpus", "load_at_start"}, found["machine"].keys())
        one = found["tables"]["t"]
        self.assertEqual(one["missing"], {"x": "not here"})
        self.assertEqual(one["figures"], {**results, "ours": [{"images_per_second": 20, "loss": None}, {"images_per_second": 30}]})
        self.assertEqual(one["targets"], [{"what": "ours over theirs", "values": [2.0, 3.0], "at_least": 3.0, "reached": False}])

    def test_a_rehearsal_and_a_busy_machine_are_told(self):
        about = report.facts("a command", rehearsal=True)
        self.assertIn("REHEARSAL", report.in_words(about))
        for load, told in (("0.20", False), ("3.10", True)):
            about["machine"]["load_at_start"] = [load, "1", "1"]
            self.assertEqual("NOT QUIET" in report.in_words(about), told)


if __name__ == "__main__":
    unittest.main()

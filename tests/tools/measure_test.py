# SPDX-License-Identifier: MIT
"""tools/dev/measure: sides are measured in alternating rounds within the time of their table, which has medians with their spread, ratios
pair by pair, targets that are missed, and sides that failed or have learnt something else."""

import json
import os
import pathlib
import sys
import tempfile
import textwrap
import types
import unittest
from unittest import mock

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools/dev"))

from measure import process, report, table  # noqa: E402
from measure.bench import Bench  # noqa: E402
from measure.comparisons import wide_resnet  # noqa: E402
from measure.rounds import Absent, OutOfTime, Rounds, Share, Side, alternate  # noqa: E402
from measure.table import FIRST_STEP, LOSS, SPEED, Case, Made, Ratio, Table  # noqa: E402
from measure.trainings import Job, figures  # noqa: E402


class Clock:
    """Stands still but for what is said to take time."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class InRounds(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.order = []

    def test_no_round_begins_that_would_exceed_the_share_but_the_first(self):
        for wanted, share_seconds, round_seconds, done in (
                (5, 100, [10] * 5, 5), (5, 35, [10] * 5, 3), (5, 42, [20, 5, 5, 5], 2), (5, 1, [10], 1)):  # fmt: skip
            seconds = iter(round_seconds)
            for number, _ in enumerate(Share(share_seconds, 1000, self.clock).rounds(wanted), 1):
                self.clock.now += next(seconds)
            self.assertEqual(number, done, round_seconds)

    def test_a_run_gets_no_more_seconds_than_all_have_left(self):
        share = Share(10, 50, self.clock)
        self.assertEqual([share.timeout(seconds) for seconds in (120, 20)], [50, 20])
        self.clock.now += 49.5
        with self.assertRaises(OutOfTime):
            share.timeout(20)

    def side(self, name, seconds=1.0, fails_at=None, error=process.Failed):
        def run(most_seconds):
            self.order.append(name)
            self.clock.now += min(seconds, most_seconds)
            if seconds > most_seconds:
                raise process.Failed(f"no end within {most_seconds} s")
            if self.order.count(name) == fails_at:
                raise error(f"{name} broke")
            return {"number": len(self.order)}

        return Side(name, run)

    def test_every_other_round_runs_backwards_and_a_side_that_fails_or_is_absent_is_left_out(self):
        for sides, seconds, order, done, failures, absent in (
                ((("a",), ("b",)), 100, "abbaab", {"a": 3, "b": 3}, [], []),
                ((("a",), ("b", 1, 2)), 100, "abbaa", {"a": 3}, ["b"], []),
                ((("a", 1, 1), ("b",)), 100, "abbb", {"b": 3}, ["a"], []),
                ((("a",), ("x", 1, 1, Absent)), 100, "axaa", {"a": 3}, [], ["x"]),
                ((("a", 5), ("b", 5)), 16, None, {"a": 1, "b": 1}, [], []),  # the end of the time cuts the second round short
                ((("a", 5), ("b", 5)), 8, None, {"a": 1}, [], ["b"])):  # fmt: skip
            with self.subTest(sides=sides, seconds=seconds):
                self.order.clear()
                rounds = alternate([self.side(*one) for one in sides], Share(100, seconds, self.clock), 3)
                if order:
                    self.assertEqual("".join(self.order), order)
                self.assertEqual({name: len(results) for name, results in rounds.results.items()}, done)
                self.assertEqual((list(rounds.failures), list(rounds.absent)), (failures, absent))

    def test_fewer_rounds_than_planned_are_named(self):
        rounds = alternate([self.side("a", 10)], Share(25, 100, self.clock), 5)
        self.assertIn("2 of 5 planned", rounds.in_words())


def side(name, values, key="images_per_second"):
    """Raises what is an exception."""
    left = iter(values)

    def run(_):
        value = next(left)
        if isinstance(value, Exception):
            raise value
        return {key: value}

    return Side(name, run)


def made_of(*cases):
    with mock.patch("builtins.print"):
        return table.measure(Table("t", "a table", lambda _: cases), types.SimpleNamespace(pairs=3, timeout=60), Share())


class InTables(unittest.TestCase):
    def test_sides_have_medians_with_their_spread_and_ratios_are_of_the_runs_of_one_round(self):
        made = made_of(Case([side("ours", [10, 40, 30]), side("theirs", [5, 10, 10])], (SPEED,), (Ratio("ours", "theirs"),), name="mlp"))
        self.assertIn("| mlp: ours | 30 (10 .. 40) |", made.text)
        self.assertIn("| mlp: theirs | 10 (5 .. 10) |", made.text)
        self.assertIn("| mlp: ours | theirs | images/s | 3.00 (2.00 .. 4.00) |  |", made.text)  # of 2, 4 and 3, not 30 over 10 of the medians
        key = FIRST_STEP.key  # of seconds fewer are better
        made = made_of(Case([side("ours", [1, 1, 1], key), side("theirs", [2, 3, 4], key)], (FIRST_STEP,), (Ratio("ours", "theirs", FIRST_STEP),)))
        self.assertIn("3.00 (2.00 .. 4.00)", made.text)

    def test_a_target_is_about_the_median_and_one_that_is_missed_is_said(self):
        for ours, theirs, least, word in (([20, 20, 90], [10, 10, 10], 1.5, "reached"), ([20, 20, 90], [10, 10, 10], 4, "not reached"),
                                          ([9, 10, 10], [10, 10, 2], 1, "reached"), ([9, 10, 10], [10, 10.1, 2], 1, "not reached")):  # fmt: skip
            made = made_of(Case([side("ours", ours), side("theirs", theirs)], (SPEED,), (Ratio("ours", "theirs", at_least=least),)))
            self.assertIn(f"| at least {least}: {word} |", made.text)
            self.assertEqual(f"at least {least}: not reached" in made.in_words(), word != "reached")
            self.assertFalse(made.failed())

    def test_no_figure_is_made_of_a_side_that_failed(self):
        sides = [side("ours", [10, 10, 10]), side("theirs", [5, process.Failed("it broke")])]
        made = made_of(Case(sides, (SPEED,), (Ratio("ours", "theirs"),)))
        self.assertTrue(made.failed())
        self.assertIn("Not measured: theirs: it broke", made.markdown())
        self.assertIn("theirs: it broke", made.in_words())
        for text in ("| theirs", "better by a factor"):
            self.assertNotIn(text, made.text)
        self.assertEqual(made.as_json()["missing"], {"theirs": "it broke"})

    def test_losses_that_differ_are_shown_with_their_sides(self):
        for loss, differs in ((2.4, False), (2.6, True)):
            sides = [side("ours", [2.0] * 3, "loss"), side("theirs", [2.0, loss, loss], "loss")]
            made = made_of(Case(sides, (LOSS,), name="convnet", alike=1.25))
            self.assertEqual(f"**Not the same training**: losses convnet: ours 2.000, convnet: theirs {loss:.3f}." in made.text, differs)

    def test_the_speed_and_the_loss_are_those_after_the_warm_up(self):
        found = figures(Job(10, 40, 20), 80.0, {1: 90.0, 20: 100.0, 40: 102.0}, {1: 9.0, 20: 3.0, 30: 2.0, 40: 1.0})
        self.assertEqual(found, {"images_per_second": 100.0, "loss": 1.5, "first_step_seconds": 10.0})

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

    def test_a_rehearsal_and_a_busy_machine_are_named(self):
        about = report.facts("a command", rehearsal=True)
        self.assertIn("REHEARSAL", report.in_words(about))
        for load, named in (("0.20", False), ("3.10", True)):
            about["machine"]["load_at_start"] = [load, "1", "1"]
            self.assertEqual("NOT QUIET" in report.in_words(about), named)


# Steps of 10 ms, without CUDA graphs of 20 ms, by its rows; on several GPUs of as many less.
MADE_DDPRUN = """\
    import json, pathlib, sys
    words = dict(word.split("=", 1) for word in sys.argv[2:] if "=" in word)
    if words["trainer.precision"] == "fp32":
        sys.exit("it broke")
    run = pathlib.Path(words["run.dir"])
    run.mkdir()
    (run / "config.yaml").write_text("name: made\\n")
    graphs = words.get("trainer.cuda_graph") != "off"
    seconds, every = (0.01 if graphs else 0.02) / int(words["launch.workers"]), int(words["trainer.log_every"])
    rows = [{"split": "train", "step": step, "time": step * seconds, "loss": 2.0}
            for step in range(every, int(words["trainer.max_steps"]) + 1, every)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
    (run / "summary.json").write_text(json.dumps({"status": "completed", "replayed_steps": 90 if graphs else 0, "wait_seconds": 0.288}))
"""


class OfAGpu(unittest.TestCase):
    """Tables of a GPU without one, with a made ddprun, on images that are random where there are none."""

    def measure(self, name):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="ddprun-tables-")))
        self.enterContext(mock.patch.dict(os.environ, DDPRUN_DATA=str(folder), XDG_CACHE_HOME=str(folder)))
        program = folder / "ddprun"
        program.write_text(f"#!{sys.executable}\n{textwrap.dedent(MADE_DDPRUN)}")
        program.chmod(0o755)
        small = wide_resnet.Sizes(images=8, precisions=("fp32",))
        with mock.patch.object(wide_resnet, "sizes_of", lambda _: small), mock.patch("builtins.print"):
            return Bench(str(program), folder, "cuda", pairs=2).measure(name, Share(1000, 1000))

    def test_fast_paths_are_compared_with_all_of_them_on_and_random_images_are_named(self):
        made = self.measure("fast_paths_wide_resnet")
        for text in ("WRN-16-4 on CIFAR-100, batch 1024", "RANDOM", "| as it is, bf16 | 102,400 (102,400 .. 102,400) | 90 (90 .. 90) |",
                     "| trainer.cuda_graph=off | as it is, bf16 | images/s | 0.50 (0.50 .. 0.50) |  |"):  # fmt: skip
            self.assertIn(text, made.text)
        self.assertTrue(made.failed())
        self.assertIn("it broke", made.missing()["trainer.precision=fp32"])

    def test_more_workers_are_measured_on_as_many_gpus_and_those_without_one_are_named(self):
        with mock.patch("measure.report.gpus", lambda: [{}, {}]):
            made = self.measure("scaling")
        self.assertIn("| wide_resnet: 2 workers | 204,800 (204,800 .. 204,800) | 2.00 (2.00 .. 2.00) |", made.text)
        self.assertIn("| wide_resnet: 2 workers | 1 worker | images/s | 2.00 (2.00 .. 2.00) |", made.text)
        self.assertEqual(made.missing(), {"wide_resnet: 4 workers": "2 GPUs here", "wide_resnet: 8 workers": "2 GPUs here"})
        self.assertFalse(made.failed())


if __name__ == "__main__":
    unittest.main()

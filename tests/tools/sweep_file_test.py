# SPDX-License-Identifier: MIT
"""tools/lib/sweep: what a sweep file may hold, how its mistakes are told, and which values trials get."""

import contextlib
import io
import itertools
import random
import shutil
import unittest
import unittest.mock

import optuna
from optuna.trial import TrialState as State
from sweep_file_case import SweepFileTest  # first: it knows where the tools lie

from ddprun.errors import UserError
from sweep.arguments import parse_arguments
from sweep.processes import Processes
from sweep.program import Program
from sweep.proposals import Proposals
from sweep.slots import make_slots, threads_override
from sweep.space import override_text
from sweep.storage import Storage, explain
from sweep.sweep_file import find_sweep_file

HEAD = "experiment: e.yaml\nmethod: random\nmetric: {name: val/loss}\nrun_cap: 9\n"  # four lines
optuna.logging.set_verbosity(optuna.logging.ERROR)


class FileTest(SweepFileTest):
    def space(self, text, **head):
        head_text = "".join(f"{key}: {value}\n" for key, value in head.items()) or HEAD
        return self.read(f"{head_text}parameters:\n  a.b: {text}\n").parameters[0].space

    def assert_refused(self, text, *expected):
        """Each of these texts at its line: "3: metric.gaol"."""
        with self.assertRaises(UserError) as caught:
            self.read(text)
        lines = str(caught.exception).splitlines()
        self.assertEqual(len(lines), len(expected), lines)
        for line, part in zip(lines, expected):
            self.assertIn(f"s.yaml:{part}", line)


class Mistakes(FileTest):
    def test_all_are_told_at_once_with_their_lines(self):
        self.assert_refused(
            "experiment: e.yaml\n"
            "methd: grid\n"
            "metric: {name: accuracy, gaol: maximize}\n"
            "early_terminate: {type: asha, min_iter: 0, max_iter: 3}\n"
            "run_cap: many\n"
            "parameters:\n"
            "  a: {min: 2, max: 1}\n"
            "  b: {values: []}\n"
            "  c: {distribution: uniformly, min: 0, max: 1}\n",
            "1: method: missing: one of grid, random, bayes",
            "2: the sweep: methd is unknown; did you mean method?",
            "3: metric.name: accuracy: expected a split (train, val, test) and what it measures, as val/accuracy",
            "3: metric: gaol is unknown; did you mean goal?",
            "4: early_terminate.max_iter: does not go with asha",
            "4: early_terminate.min_iter: expected a whole number of at least 1, found 0",
            "5: run_cap: expected a whole number of at least 1, found many",
            "7: a: the range is empty: min 2 is more than max 1",
            "8: b.values: expected a list of at least one value",
            "9: c: distribution: uniformly is unknown; did you mean uniform?",
        )

    def test_each_parameter(self):
        for text, told in (
            ("{}", "expected value, values, or min and max"),
            ("5", "expected a map of keys, found 5"),
            ("{min: 1}", "int_uniform needs min and max"),
            ("{min: 0, max: 1, values: [1]}", "a.b.min: does not go with categorical"),
            ("{min: low, max: 1.0}", "a.b.min: expected a number, found low"),
            ("{min: 0, max: true}", "a.b.max: expected a number, found True"),
            ("{values: [1, 2, 1]}", "a.b.values: 1 is there twice"),
            ("{values: [1, 2], probabilities: [0.5, 0.6]}", "a.b.probabilities: expected 2 numbers whose sum is 1"),
            ("{distribution: log_uniform_values, min: 0, max: 1}", "log_uniform_values needs min above 0, found 0"),
            ("{distribution: int_uniform, min: 0.5, max: 3}", "int_uniform needs whole numbers, found 0.5 .. 3"),
            ("{min: 11, max: 19, q: 10}", "the range 11 .. 19 holds no multiple of q 10"),
            ("{min: 0.0, max: 1.0, q: 0}", "a.b.q: must be more than 0, found 0"),
            ("{mu: 0, sigma: -1}", "a.b.sigma: must be more than 0, found -1"),
            ("{vales: [1]}", "a.b: vales is unknown; did you mean values?"),
        ):
            with self.subTest(text), self.assertRaises(UserError) as caught:
                self.space(text)
            self.assertIn("s.yaml:6: ", str(caught.exception))
            self.assertIn(told, str(caught.exception))

    def test_the_file_itself(self):
        for text, told in (
            ("a: [1\n", "s.yaml:2:1: this is no YAML: "),
            ("method: grid\nmethod: grid\n", "s.yaml:2: method is there twice"),
            ("- 1\n", "s.yaml:1: the sweep: expected a map of keys"),
            ("", "s.yaml:1: experiment: missing"),
            ("a: &a [*a]\n", "s.yaml:1: an alias that holds itself"),
            ("a: " + "[" * 40 + "]" * 40, "s.yaml:1: nests deeper than 32 levels"),
            ("[" * 5000, "s.yaml: nests deeper than 32 levels"),
            ("a: &a [1, 2]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in itertools.pairwise("abcdefghijklmno")),
             "more than 10,000 values"),
        ):
            with self.subTest(text), self.assertRaises(UserError) as caught:
                self.read(text)
            self.assertIn(told, str(caught.exception))

    def test_whatever_is_broken_is_refused_or_read(self):
        whole = (HEAD + "early_terminate: {type: hyperband, min_iter: 1, max_iter: 27, eta: 3}\nparameters:\n"
                 "  a: {min: 0.1, max: 1, distribution: log_uniform_values}\n  b: {values: [1, x], probabilities: [0.5, 0.5]}\n")
        pieces = ("{", "]", ": ", "\n", "- ", "&a ", "*a", "!!set ", '"', "nan", "1e999", "-1", "9" * 30, "\0", "2020-01-01", "~")
        dice = random.Random(1)
        for _ in range(300):
            begin = dice.randrange(len(whole))
            text = whole[:begin] + dice.choice(pieces) + whole[begin + dice.randrange(9):]
            with self.subTest(text), contextlib.suppress(UserError):
                self.read(text).cap()

    def test_a_search_without_an_end(self):
        head = "experiment: e\nmethod: {}\nmetric: {{name: val/loss}}\nparameters:\n  a: {{min: 0.0, max: 1.0}}\n"
        self.assert_refused(head.format("random"), "1: run_cap: missing: how many trials")
        self.assert_refused(head.format("grid"), "5: a: a grid needs values, or a range of steps")


class Spaces(FileTest):
    def test_types_follow_the_numbers(self):
        whole = self.space("{min: 1, max: 8}")
        self.assertEqual([whole.all_values(), whole.integer], [[1, 2, 3, 4, 5, 6, 7, 8], True])
        self.assertEqual(self.space("{min: 10, max: 64, q: 16}").all_values(), [16, 32, 48, 64])
        self.assertEqual(self.space("{min: 0.1, max: 0.3, q: 0.1}").all_values(), [0.1, 0.2, 0.3])
        self.assertIsNone(self.space("{min: 0.0, max: 1}").size)
        self.assertIsNone(self.space("{distribution: log_uniform_values, min: 1e-5, max: 1e-1}").size)

    def test_a_space_in_words(self):
        for text, words in (
            ("{values: [32, b, null]}", "32, b, null"),
            ("{min: 1, max: 8}", "1 .. 8, whole"),
            ("{min: 10, max: 64, q: 16}", "16 .. 64, multiples of 16"),
            ("{distribution: log_uniform_values, min: 1e-5, max: 1e-1}", "1e-05 .. 0.1, log"),
            ("{distribution: normal, mu: 5, sigma: 1}", "2.0 .. 8.0, normal"),
        ):
            self.assertEqual(str(self.space(text)), words)

    def test_draws_stay_in_the_range(self):
        generator = random.Random(1)
        for text, low, high in (
            ("{min: 0.25, max: 0.5}", 0.25, 0.5),
            ("{distribution: log_uniform_values, min: 1e-5, max: 1e-1}", 1e-5, 1e-1),
            ("{distribution: log_uniform, min: -3, max: 0}", 0.0497870683, 1),
            ("{distribution: q_log_uniform_values, min: 8, max: 512, q: 8}", 8, 512),
            ("{distribution: normal, mu: 5, sigma: 1}", 2, 8),
            ("{distribution: q_log_normal, mu: 3, sigma: 0.5, q: 1}", 5, 90),
        ):
            space = self.space(text)
            for _ in range(300):
                value = space.draw(generator)
                self.assertTrue(low <= value <= high, f"{text}: {value}")
                self.assertTrue(
                    space.distribution()._contains(space.distribution().to_internal_repr(value)), f"{text}: {value}"
                )

    def test_exponents_that_look_like_values_are_remarked(self):
        for entry, told in (("min: 0.001, max: 0.1", True), ("min: -7, max: -2", False), ("min: -1, max: 1", False)):
            with self.subTest(entry), contextlib.redirect_stderr(io.StringIO()) as error:
                self.space(f"{{distribution: log_uniform, {entry}}}")
                self.assertEqual("its values are 1.001 .. 1.105; for values of 0.001 .. 0.1 use log_uniform_values"
                                 in error.getvalue(), told)

    def test_log_draws_are_even_in_the_exponent(self):
        space, generator = self.space("{distribution: log_uniform_values, min: 1e-4, max: 1}"), random.Random(1)
        below = sum(space.draw(generator) < 1e-2 for _ in range(2000))
        self.assertTrue(900 < below < 1100, below)

    def test_probabilities(self):
        space, generator = self.space("{values: [a, b], probabilities: [0.9, 0.1]}"), random.Random(1)
        self.assertTrue(1700 < sum(space.draw(generator) == "a" for _ in range(2000)) < 1900)

    def test_nested_parameters_and_values_of_any_kind(self):
        sweep = self.read(
            HEAD + "parameters:\n  model: {parameters: {plugin: {value: mlp}, hidden: {min: 1, max: 3}}}\n"
            "  crop: {values: [[1, 2], null, true, 1e-3, yes]}\n"
        )
        self.assertEqual([one.path for one in sweep.parameters], ["model.plugin", "model.hidden", "crop"])
        self.assertEqual(
            [override_text(value) for value in sweep.parameters[2].space.values],
            ["[1, 2]", "null", "true", "0.001", "yes"],
        )

    def test_keys_that_only_wandb_uses_are_no_mistake(self):
        self.read(
            HEAD.replace("experiment", "program") + "project: p\nentity: e\ndescription: d\ncommand: ['${program}']\n"
            "parameters: {a: {value: 1}}\n"
        )


class Values(FileTest):
    """Which values the trials of a study get, one after the other."""

    def propose(self, text, trials, name="s"):
        sweep = self.read(text)
        proposals = Proposals(sweep, name, optuna.pruners.NopPruner())
        found = proposals.next(trials)
        if found is None:
            return None
        distributions = {one.path: one.space.distribution() for one in sweep.parameters}
        return optuna.trial.create_trial(
            state=State.COMPLETE, params=found[0], distributions=distributions, value=len(trials), system_attrs=found[1]
        )

    def fill(self, text, count):
        trials = []
        for number in range(count):
            trial = self.propose(text, trials)
            if trial is None:
                break
            trial.number = number
            trials.append(trial)
        return [trial.params for trial in trials]

    def test_a_grid_has_all_combinations_in_the_order_of_the_file(self):
        text = (
            HEAD.replace("random", "grid")
            + "parameters: {a: {values: [1, 2]}, b: {values: [x, y, z]}, c: {value: 0}}\n"
        )
        found = self.fill(text, 99)
        self.assertEqual([(one["a"], one["b"]) for one in found], [(a, b) for a in (1, 2) for b in "xyz"])

    def test_nothing_is_tried_twice_and_a_finite_space_has_an_end(self):
        for method in ("random", "bayes"):
            text = (
                HEAD.replace("random", method) + "seed: 3\nparameters: {a: {min: 1, max: 4}, b: {values: [x, y, z]}}\n"
            )
            found = self.fill(text, 99)
            self.assertEqual(len({tuple(one.items()) for one in found}), 12)
            self.assertEqual(len(found), 12)

    def test_a_seed_gives_the_same_trials_however_often_it_is_interrupted(self):
        space = "parameters: {a: {min: 0.0, max: 1.0}, b: {distribution: log_uniform_values, min: 1e-4, max: 1e-1}}\n"
        for method, extra in (("random", ""), ("bayes", ""), ("bayes", "sampler: cmaes\n")):
            text = HEAD.replace("random", method) + "seed: 7\n" + extra + space
            first, second = self.fill(text, 14), self.fill(text, 14)  # each trial by a Proposals of its own
            self.assertEqual(first, second)
            self.assertEqual(len({one["a"] for one in first}), 14)
            self.assertNotEqual(first, self.fill(text.replace("seed: 7", "seed: 8"), 14))


class Places(FileTest):
    def test_storages(self):
        (self.folder / "text.db").write_text("this is no database, but a text of some length\n" * 50)
        for url, told in (
            (
                "mysql://a:secret@b/c",
                "--storage mysql://a:***@b/c: expected postgresql://user@host/database, or sqlite:///file.db",
            ),
            ("what:secret@", "--storage what:***@: expected postgresql://"),
            ("sqlite:///nowhere/s.db", "--storage sqlite:///nowhere/s.db: there is no folder /"),
            (f"sqlite:///{self.folder}/text.db", "text.db is no SQLite database; move the file away"),
        ):
            with self.subTest(url), self.assertRaises(UserError) as caught:
                Storage(url, "s")
            self.assertIn(told, str(caught.exception))
            self.assertNotIn("secret", str(caught.exception))

    def test_errors_are_told_in_the_drivers_words(self):
        storage = Storage(f"sqlite:///{self.folder}/s.db", "s")
        for driver, told in (
            ("(sqlite3.OperationalError) disk I/O error [SQL: INSERT]", "cannot be used: disk I/O error"),
            ("(sqlite3.OperationalError) database is locked", "is locked by another program"),
        ):
            wrapper = RuntimeError("An exception is raised during the commit.")
            wrapper.__cause__ = RuntimeError(driver)
            self.assertEqual(explain(storage, wrapper).partition(told)[0], f"the storage sqlite:///{self.folder}/s.db ")
            self.assertNotIn("during the commit", explain(storage, wrapper))
        server = unittest.mock.Mock(is_sqlite=False, is_gone=lambda: False, text=lambda: "postgresql://a@b/c")
        told = explain(server, RuntimeError('FATAL: password authentication failed for user "a"'))
        self.assertTrue(told.endswith('for user "a"; ~/.pgpass or PGPASSWORD holds the password'), told)

    def test_a_file_that_was_removed_or_replaced_is_gone(self):
        file = self.folder / "s.db"
        storage = Storage(f"sqlite:///{file}", "s")
        self.assertFalse(storage.is_gone())
        file.rename(self.folder / "other.db")
        self.assertTrue(storage.is_gone())
        shutil.copyfile(self.folder / "other.db", file)
        self.assertTrue(storage.is_gone())
        self.assertIn("s.db was removed: put the file back", explain(storage, RuntimeError("readonly")))

    def test_the_command_line(self):
        for words, told in (
            (["s.yaml", "run.dir=x"], "run.dir=x: each trial has a folder of its own; --out names the sweep's"),
            (["s.yaml", "speed"], "speed: expected key=value"),
            (["s.yaml", "run_cap=2"], "run_cap is a key of the sweep's file"),
            (["s.yaml", "--jobs", "0"], "0: must be 1 or more"),
            (["s.yaml", "--jobs", "3", "--gpus", "0,1"], "--jobs 3 cannot share 2 GPUs evenly"),
            (["s.yaml", "--gpus", "0,0"], "expected GPUs separated by commas, each once"),
            (["s.yaml", "--grace", "0"], "0: must be more than 0"),
        ):
            said = io.StringIO()
            with self.subTest(words), self.assertRaises(SystemExit), contextlib.redirect_stderr(said):
                parse_arguments(words)
            self.assertIn(told, said.getvalue())
        self.assertEqual(
            parse_arguments(["s.yaml", "a=1", "--jobs", "2", "~b", "++c.d=[1]"])[1].overrides,
            ["a=1", "~b", "++c.d=[1]"],
        )

        self.assertEqual(parse_arguments(["--ddprun", "x", "report", "s.yaml"])[0], "report")

    def test_programs_and_files_that_are_not_there(self):
        with self.assertRaisesRegex(UserError, "--ddprun nothing: there is no such program"):
            Program("nothing")
        with self.assertRaisesRegex(UserError, "nowhere.yaml: no such sweep file, here or in "):
            find_sweep_file("nowhere.yaml")


class FakeStorage:
    def __init__(self):
        self.attributes = {}

    def set_study_system_attr(self, _, key, value):
        self.attributes[key] = value

    def get_study_system_attrs(self, _):
        return self.attributes


class OtherMachines(FileTest):
    def setUp(self):
        super().setUp()
        self.now = 1000.0
        patched = unittest.mock.patch("time.monotonic", lambda: self.now)
        patched.start()
        self.addCleanup(patched.stop)
        self.storage = FakeStorage()
        self.processes = Processes(self.storage, 0, self.folder, grace=60)
        self.storage.attributes["process far"] = {"host": "elsewhere", "beat": 7}

    def dead(self, after):
        self.now += after
        return self.processes.dead({"far", self.processes.id})

    def test_who_is_silent_for_the_time_of_grace_is_dead(self):
        self.assertEqual([self.dead(10) for _ in range(7)], [set()] * 7)
        self.assertEqual(self.dead(10), {"far"})
        self.storage.attributes["process far"]["beat"] = 8
        self.assertEqual(self.dead(1), set())

    def test_who_was_not_looked_at_is_not_dead(self):
        self.dead(10)
        self.assertEqual(self.dead(500), set(), "the server may have been away, for all of us")
        self.assertEqual([self.dead(50), self.dead(50)], [set(), {"far"}])

    def test_who_has_ended_or_is_unknown_is_dead(self):
        self.storage.attributes["process far"] = {"host": "elsewhere", "ended": True}
        self.assertEqual(self.dead(0), {"far"})
        self.storage.attributes.clear()
        self.assertEqual(self.dead(0), {"far"})


class Slots(unittest.TestCase):
    def test_gpus_are_dealt_out(self):
        self.assertEqual([slot.gpus for slot in make_slots(None, ["0", "1"])], ["0", "1"])
        self.assertEqual([slot.gpus for slot in make_slots(2, list("0123"))], ["0,1", "2,3"])
        self.assertEqual([slot.gpus for slot in make_slots(4, ["0", "1"])], ["0", "1", "0", "1"])
        self.assertEqual([slot.gpus for slot in make_slots(3, [])], [None] * 3)

    def test_threads_are_shared_unless_they_are_given(self):
        self.assertRegex(threads_override({}, 1000, [])[0], r"^\+\+launch\.threads=1$")
        self.assertEqual(threads_override({"launch": {"threads": 2}}, 2, []), [])
        self.assertEqual(threads_override({}, 2, ["launch.threads=2"]), [])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""tools/lib/sweep: what a sweep file may hold, how its mistakes are reported, and which values trials get."""

import contextlib
import io
import random
import unittest
import unittest.mock

import optuna
from optuna.trial import TrialState as State
from sweep_test_case import SweepFileTest  # first: it knows where the tools lie

from ddprun.errors import UserError
from sweep.arguments import parse_arguments
from sweep.program import Program
from sweep.proposals import Proposals
from sweep.space import override_text
from sweep.storage import Storage
from sweep.sweep_file import find_sweep_file
from sweep.sweeper import make_slots, threads_override

HEAD = "experiment: e.yaml\nmethod: random\nmetric: {name: val/loss}\nrun_cap: 9\n"  # four lines
PARAMETERS = "parameters: {a: {low: 0.0, high: 1.0}}\n"


class FileTest(SweepFileTest):
    def parameter(self, text):
        return self.read(f"{HEAD}parameters:\n  a.b: {text}\n").parameters[0]

    def assert_refused(self, text, *expected):
        with self.subTest(text), self.assertRaises(UserError) as caught:
            self.read(text)
        for part in expected:
            self.assertIn(part, str(caught.exception))


class Mistakes(FileTest):
    def test_each_key_of_the_file(self):
        for text, reported in (
            ("metric: {name: val/loss}\n", "1: experiment: missing: experiments/digits.yaml"),
            ("experiment: e\nmetric: {name: val/loss}\n", "1: parameters: missing: {optimizer.lr: {low: "),
            (HEAD + "parameters: {}\n", "5: parameters: there are none"),
            (HEAD + "methd: grid\n", "5: the sweep: methd is unknown; did you mean method?"),
            (HEAD.replace("random", "asha") + PARAMETERS, "2: method: asha is unknown; known: grid, random, tpe, cmaes, bayes"),
            (HEAD.replace("val/loss", "accuracy") + PARAMETERS, "3: metric.name: accuracy: expected a split (train, val, test)"),
            (HEAD.replace("}", ", gaol: maximize}") + PARAMETERS, "3: metric: gaol is unknown; did you mean goal?"),
            (HEAD.replace("9", "many") + PARAMETERS, "4: run_cap: expected a whole number of at least 1, found many"),
            (HEAD + "pruner: {min_resource: 1}\n" + PARAMETERS, "5: pruner.type: missing: one of median, asha, hyperband"),
            (HEAD + "pruner: {type: asha, max_resource: 3}\n" + PARAMETERS, "5: pruner: max_resource is unknown; did you mean min_resource?"),
            (HEAD + "pruner: {type: asha, min_resource: 0}\n" + PARAMETERS,
             "5: pruner.min_resource: expected a whole number of at least 1, found 0"),
            (HEAD + "pruner: {type: hyperband, min_resource: 9, max_resource: 3}\n" + PARAMETERS, "5: pruner: max_resource 3 is less"),
            (HEAD + "pruner: {type: asha, bootstrap_count: 2}\n" + PARAMETERS, "5: pruner: bootstrap_count > 0 and min_resource == 'auto'"),
            (HEAD.replace("run_cap: 9\n", "") + PARAMETERS, "4: run_cap: missing: how many trials; random has no end of its own"),
            (HEAD.replace("random", "grid") + PARAMETERS, "5: a: a grid needs choices, or a step"),
            (HEAD.replace("random", "grid") + "parameters: {a: {low: 1, high: 2000000}}\n", "5: the grid has 2,000,000 trials: list fewer"),
            (HEAD.replace("random", "cmaes") + "parameters: {a: {low: 1, high: 2}, b: {choices: [1, 2]}}\n", "5: method cmaes searches"),
        ):
            self.assert_refused(text, f"s.yaml:{reported}")

    def test_each_parameter(self):
        for text, reported in (
            ("{}", "a.b: expected choices: [a, b], or low and high"),
            ("5", "a.b: expected a map of keys, found 5"),
            ("{low: 1}", "a.b: expected choices: [a, b], or low and high"),
            ("{low: 0, high: 1, choices: [1]}", "a.b: choices stand alone, without "),
            ("{low: few, high: 1.0}", "a.b.low: expected a number, found few"),
            ("{low: 0, high: true}", "a.b.high: expected a number, found True"),
            ("{low: 0, high: 1e999}", "a.b.high: expected a number, up to 1e+15 if it is whole, found inf"),
            ("{low: 0, high: 1, log: 3}", "a.b.log: expected true or false, found 3"),
            ("{choices: []}", "a.b.choices: expected a list of at least one value"),
            ("{choices: [1, 2, 1]}", "a.b.choices: 1 is there twice"),
            ("{low: 2, high: 1}", "a.b: `low <= high` must hold, but got (low=2, high=1)"),
            ("{low: 0.0, high: 1, log: true}", "a.b: `low > 0` must hold for `log=True`"),
            ("{low: 0.1, high: 1, log: true, step: 0.1}", "a.b: The parameter `step` is not supported when `log` is true"),
            ("{low: 0.0, high: 1.0, step: 0}", "a.b: `step > 0` must hold"),
            ("{chioces: [1]}", "a.b: chioces is unknown; did you mean choices?"),
        ):
            self.assert_refused(f"{HEAD}parameters:\n  a.b: {text}\n", f"s.yaml:6: {reported}")

    def test_words_of_wandb_are_taken_or_answered_with_those_of_here(self):
        sweep = self.read(HEAD.replace("random", "bayes") + "parameters: {a: {min: 1, max: 3}, b: {values: [x, y]}, c: {value: 5}}\n")
        spaces = [(one.probes(), one.size) for one in sweep.parameters]
        self.assertEqual((sweep.method, spaces), ("tpe", [([1, 3], 3), (["x", "y"], 2), ([5], 1)]))
        for text, reported in (
            ("program: e.yaml\n", "1: the sweep: there is no program here: experiment names it"),
            (HEAD + "early_terminate: {type: hyperband}\n", "5: the sweep: there is no early_terminate here: pruner: {type: hyperband, "),
            (HEAD + "parameters: {a: {distribution: log_uniform_values, min: 1}}\n", "5: a: there is no distribution here: low and high, with log:"),
            (HEAD + "parameters: {a: {min: 1, max: 9, q: 2}}\n", "5: a: there is no q here: step counts from low"),
            (HEAD + "parameters: {a: {mu: 1}}\n", "5: a: there is no mu here: low and high"),
            (HEAD + "parameters: {a: {values: [1], probabilities: [1]}}\n", "5: a: there is no probabilities here: all choices are equally"),
            (HEAD + "parameters: {model: {parameters: {}}}\n", "5: model: there is no parameters here: write the whole path as the key"),
        ):
            self.assert_refused(text, f"s.yaml:{reported}")

    def test_what_optuna_remarks_is_reported_with_the_line(self):
        with contextlib.redirect_stderr(io.StringIO()) as reported:
            self.assertEqual(self.parameter("{low: 11, high: 20, step: 10}").probes(), [11, 11])
        self.assertIn("s.yaml:6: a.b: The distribution is specified by [11, 20] and step=10, but", reported.getvalue())

    def test_the_file_itself(self):
        for text, reported in (
            ("a: [1\n", "s.yaml:2:1: this is no YAML: "),
            ("method: grid\nmethod: grid\n", "s.yaml:2: method is there twice"),
            ("- 1\n", "s.yaml:1: the sweep: expected a map of keys"),
            ("", "s.yaml:1: experiment: missing"),
            ("a: &a [*a]\n", "s.yaml: is nested too deeply"),
            ("[" * 5000, "s.yaml: is nested too deeply"),
        ):
            self.assert_refused(text, reported)

    def test_whatever_is_broken_is_refused_or_read(self):
        whole = (HEAD + "pruner: {type: hyperband, min_resource: 1, max_resource: 27, reduction_factor: 3}\nparameters:\n"
                 "  a: {low: 0.1, high: 1, log: true}\n  b: {choices: [1, x]}\n")
        pieces = ("{", "]", ": ", "\n", "- ", "&a ", "*a", "!!set ", '"', "nan", "1e999", "-1", "9" * 30, "\0", "2020-01-01", "~")
        dice = random.Random(1)
        for _ in range(300):
            begin = dice.randrange(len(whole))
            text = whole[:begin] + dice.choice(pieces) + whole[begin + dice.randrange(9):]
            with self.subTest(text), contextlib.suppress(UserError):
                self.read(text).cap()


class Spaces(FileTest):
    def test_types_follow_the_numbers(self):
        for text, space, size in (
            ("{low: 1, high: 8}", "IntDistribution(high=8, log=False, low=1, step=1)", 8),
            ("{low: 16, high: 64, step: 16}", "IntDistribution(high=64, log=False, low=16, step=16)", 4),
            ("{low: 1, high: 512, log: true}", "IntDistribution(high=512, log=True, low=1, step=1)", 512),
            ("{low: 0.0, high: 1}", "FloatDistribution(high=1.0, log=False, low=0.0, step=None)", None),
            ("{low: 1e-5, high: 1e-1, log: true}", "FloatDistribution(high=0.1, log=True, low=1e-05, step=None)", None),
            ("{low: 0.1, high: 0.3, step: 0.1}", "FloatDistribution(high=0.3, log=False, low=0.1, step=0.1)", 3),
            ("{choices: [32, b, null]}", "CategoricalDistribution(choices=(32, 'b', None))", 3),
        ):
            with self.subTest(text):
                found = self.parameter(text)
                self.assertEqual((str(found.distribution), found.size), (space, size))

    def test_choices_of_any_kind(self):
        found = self.parameter("{choices: [[1, 2], null, true, 1e-3, yes, '']}").probes()
        self.assertEqual([override_text(value) for value in found], ["[1, 2]", "null", "true", "0.001", "yes", '""'])


class Values(FileTest):
    """Which values the trials of a study get, one after the other."""

    def fill(self, text, count):
        sweep, trials = self.read(text), []
        for number in range(count):  # each trial by a Proposals of its own, as if the sweep was interrupted
            found = Proposals(sweep, "s").next(trials, number)
            if found is None:
                break
            trials.append(optuna.trial.create_trial(
                state=State.COMPLETE, params=found[0], distributions=sweep.distributions, value=number, system_attrs=found[1]))  # fmt: skip
            trials[-1].number = number
        return [trial.params for trial in trials]

    def test_nothing_is_tried_twice_and_a_finite_space_has_an_end(self):
        space = "parameters: {a: {low: 1, high: 4}, b: {choices: [x, y, z]}, c: {value: 0}, d: {low: 0.0, high: 0.2, step: 0.1}}\n"
        for method in ("grid", "random", "tpe"):
            with self.subTest(method):
                found = self.fill(HEAD.replace("random", method) + "seed: 3\n" + space, 99)
                self.assertEqual(len(found), 36)
                self.assertEqual({(one["a"], one["b"], one["c"], one["d"]) for one in found},
                                 {(a, b, 0, d) for a in (1, 2, 3, 4) for b in "xyz" for d in (0.0, 0.1, 0.2)})  # fmt: skip

    def test_a_seed_gives_the_same_trials_however_often_it_is_interrupted(self):
        space = "parameters: {a: {low: 0.0, high: 1.0}, b: {low: 1e-4, high: 1e-1, log: true}}\n"
        grid = "parameters: {a: {low: 1, high: 20}}\n"
        for method, parameters in (("random", space), ("tpe", space), ("cmaes", space), ("grid", grid)):
            text = HEAD.replace("random", method) + "seed: 7\n" + parameters
            first, second = self.fill(text, 14), self.fill(text, 14)
            self.assertEqual(first, second)
            self.assertEqual(len({one["a"] for one in first}), 14)
            self.assertNotEqual(first, self.fill(text.replace("seed: 7", "seed: 8"), 14))


class Places(FileTest):
    def test_storages(self):
        (self.folder / "text.db").write_text("this is no database, but a text of some length\n" * 50)
        for url, reported in (
            ("mysql://a:secret@b/c", "--storage mysql://a:***@b/c: expected postgresql://user@host/database, or sqlite:///file.db"),
            ("what:secret@", "--storage what:***@: expected postgresql://"),
            ("sqlite:///nowhere/s.db", "--storage sqlite:///nowhere/s.db: there is no folder /"),
            (f"sqlite:///{self.folder}/text.db", "text.db cannot be used: file is not a database; choose another with --storage"),
        ):
            with self.subTest(url), self.assertRaises(UserError) as caught:
                Storage(url, "s")
            self.assertIn(reported, str(caught.exception))
            self.assertNotIn("secret", str(caught.exception))

    def test_the_command_line(self):
        for words, reported in (
            (["s.yaml", "run.dir=x"], "run.dir=x: each trial has a folder of its own; --out names the sweep's"),
            (["s.yaml", "--jobs", "0"], "0: must be 1 or more"),
            (["s.yaml", "--jobs", "3", "--gpus", "0,1"], "--jobs 3 cannot share 2 GPUs evenly"),
            (["s.yaml", "--gpus", "0,0"], "expected GPUs separated by commas, each once"),
            (["s.yaml", "--grace", "2"], "2: must be 3 or more"),
        ):
            said = io.StringIO()
            with self.subTest(words), self.assertRaises(SystemExit), contextlib.redirect_stderr(said):
                parse_arguments(words)
            self.assertIn(reported, said.getvalue())
        words = ["s.yaml", "a=1", "--jobs", "2", "~b", "++c.d=[1]"]
        self.assertEqual(parse_arguments(words)[1].overrides, ["a=1", "~b", "++c.d=[1]"])
        self.assertEqual(parse_arguments(["--ddprun", "x", "report", "s.yaml"])[0], "report")

    def test_programs_and_files_that_are_not_there(self):
        with self.assertRaisesRegex(UserError, "--ddprun nothing: there is no such program"):
            Program("nothing")
        with self.assertRaisesRegex(UserError, "nowhere.yaml: no such sweep file, here or in "):
            find_sweep_file("nowhere.yaml")


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

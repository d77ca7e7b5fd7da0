# SPDX-License-Identifier: MIT
"""tools/sweep with ddprun itself: the trials are trained, killed, continued with, and the best one is trained again."""

import unittest

from sweep_test_case import HERE, State, SweepTest  # first: it knows where the tools lie

from browser import data_of
from command import SMALL, Gate, summary
from sweep.program import Program, check_values
from sweep.study import trial_name
from sweep.sweep_file import read_sweep

SIZES = ["dataset.train_size=200", "dataset.val_size=100", "dataset.test_size=20"]
WORDS = [*SIZES, *SMALL[4:], "model=mlp", "loggers=[jsonl]", "checkpoint.keep=1"]
DIGITS = """\
experiment: experiments/digits.yaml
method: tpe
seed: 1
metric: {name: val/accuracy, goal: maximize}
parameters:
  optimizer.lr: {low: 0.001, high: 0.3, log: true}
  optimizer.momentum: {low: 0.0, high: 0.95}
pruner: {type: asha, min_resource: 1, reduction_factor: 3}
run_cap: 12
"""
# One trial cannot end before it is pruned, and learns nothing: its rate has hardly risen in its first epochs. It is the second
# by this seed.
ENDLESS = """\
experiment: experiments/digits.yaml
method: grid
seed: 1
metric: {name: val/accuracy, goal: maximize}
parameters:
  trainer.max_epochs: {choices: [40, 1000000]}
pruner: {type: median, n_startup_trials: 1}
"""
RISES_FOR_A_THIRD = ["optimizer.lr=0.1", "schedule={name: one_cycle, div_factor: 1.0e+9}"]


class Digits(SweepTest):
    def test_12_trials_two_at_a_time_killed_in_the_middle(self):
        file = self.write(DIGITS)
        words = [*WORDS, "--jobs", "2"]
        gate = Gate(self, 2)
        first = self.sweep(file, *words, env=gate.env)

        def is_held_in_the_middle():
            if (self.out / "trial_0004/config.yaml").exists():
                return gate.file.exists()
            gate.file.unlink(missing_ok=True)
            return False

        self.wait_until(is_held_in_the_middle, "trial 4", first)
        self.kill(first)
        gate.open()
        before = {trial_name(trial): (trial.state, trial.value, trial.params) for trial in self.trials()}
        self.assertLess(len(before), 12)
        second = self.swept(file, *words)
        trials = self.trials()
        self.assertEqual(len(trials), 12)
        self.assertLessEqual({trial.state for trial in trials}, {State.COMPLETE, State.PRUNED})
        self.assert_distinct(trials)
        for trial in trials:
            folder = self.out / trial_name(trial)
            self.assertTrue((folder / "summary.json").exists())
            state, value, params = before.get(folder.name, (State.RUNNING, None, trial.params))
            self.assertEqual(trial.params, params)
            if state.is_finished():
                self.assertEqual((trial.state, trial.value), (state, value))
                self.assertEqual((folder / ".attempts").read_text(), "1\n")
        self.assert_nothing_left()
        self.assert_best_again(trials, second.out())

    def assert_best_again(self, trials, table):
        best = max(trial.value for trial in trials if trial.state == State.COMPLETE)
        self.assertIn(f"val/accuracy {best:.6g}", table)
        self.ddprun(self.out / "best.yaml", f"run.dir={self.folder}/again")
        self.assertEqual(summary(self.folder / "again")["metrics"]["val/accuracy"], best)
        shown = data_of(self.out / "report.html")["runs"]
        self.assertEqual({run["folder"] for run in shown}, set(map(trial_name, trials)))
        self.assertEqual(trials[int(shown[0]["folder"][-4:])].value, best, "the best comes first")
        self.assertTrue(all(len(line) <= 80 for line in table.splitlines()), table)
        self.assertEqual(self.report(self.out), table)

    def test_a_bad_trial_is_ended_early_and_says_when(self):
        done = self.swept(self.write(ENDLESS), *WORDS, *RISES_FOR_A_THIRD)
        good, bad = self.trials()
        self.assertEqual([good.state, bad.state], [State.COMPLETE, State.PRUNED])
        self.assertEqual(len(good.intermediate_values), 40)
        self.assertLess(len(bad.intermediate_values), 1_000_000)
        self.assertIn("trial_0001  pruned after ", done.err())
        self.assertIn("2 trials: 1 done, 1 pruned", done.out())
        self.assertEqual(summary(self.out / "trial_0001")["status"], "preempted")

    def test_every_value_is_tried_on_the_program_before_the_first_trial(self):
        file = self.write("experiment: experiments/digits.yaml\nmethod: grid\nmetric: {name: val/loss}\nparameters:\n"
                          "  optimizer.lrr: {choices: [0.1, 0.2]}\n"
                          "  trainer.max_epochs: {choices: [1, two]}\n"
                          "  model.dropout: {choices: [0.5, 7]}\n")  # fmt: skip
        reported = self.swept(file, code=2).err()
        for text in (
            "sweep.yaml:5: with optimizer.lrr=0.1: optimizer.lrr: unknown key; did you mean lr?",
            "sweep.yaml:6: with trainer.max_epochs=two: trainer.max_epochs: expected int",
            "sweep.yaml:7: with model.dropout=7: model.dropout: expected float",
        ):
            self.assertIn(text, reported)
        self.assertNotIn("trial_0000", reported)
        self.assertEqual(len(reported.splitlines()), 3, "each mistake once")
        self.assertFalse(self.out.exists())

    def test_the_examples_are_right(self):
        program = Program(self.program)
        for file in sorted((HERE.parents[1] / "configs/sweeps").glob("*.yaml")):
            with self.subTest(file.name):
                check_values(read_sweep(file), program, [])


if __name__ == "__main__":
    unittest.main()

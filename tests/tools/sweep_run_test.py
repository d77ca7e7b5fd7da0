# SPDX-License-Identifier: MIT
"""tools/sweep with ddprun itself: the trials are trained, killed, gone on with, and the best one is trained again."""

import types
import unittest

from sweep_test_case import HERE, State, SweepTest  # first: it knows where the tools lie

from browser import data_of
from command import SMALL, Gate, summary
from sweep.report import summary_line

SIZES = ["dataset.train_size=200", "dataset.val_size=100", "dataset.test_size=20"]
WORDS = [*SIZES, *SMALL[4:], "model=mlp", "loggers=[jsonl]", "checkpoint.keep=1"]
DIGITS = """\
experiment: experiments/digits.yaml
method: bayes
seed: 1
metric: {name: val/accuracy, goal: maximize}
parameters:
  optimizer.lr: {distribution: log_uniform_values, min: 0.001, max: 0.3}
  optimizer.momentum: {min: 0.0, max: 0.95}
early_terminate: {type: asha, min_iter: 1, eta: 3}
run_cap: 12
"""
# The second trial cannot end before it is pruned, and learns nothing: its rate has hardly risen in its first epochs.
ENDLESS = """\
experiment: experiments/digits.yaml
method: grid
metric: {name: val/accuracy, goal: maximize}
parameters:
  trainer.max_epochs: {values: [40, 1000000]}
early_terminate: {type: median, min_trials: 1}
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
        before = {trial.number: (trial.state, trial.value, trial.params) for trial in self.trials()}
        self.assertLess(len(before), 12)
        second = self.swept(file, *words)
        trials = self.trials()
        self.assertEqual(len(trials), 12)
        self.assertLessEqual({trial.state for trial in trials}, {State.COMPLETE, State.PRUNED})
        self.assert_distinct(trials)
        for trial in trials:
            folder = self.out / f"trial_{trial.number:04}"
            self.assertTrue((folder / "summary.json").exists())
            state, value, params = before.get(trial.number, (State.RUNNING, None, trial.params))
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
        self.assertEqual({run["folder"] for run in shown}, {f"trial_{trial.number:04}" for trial in trials})
        self.assertEqual(trials[int(shown[0]["folder"][-4:])].value, best, "the best comes first")
        self.assertRegex(table, r"what matters most: (lr|momentum) \d+%, (lr|momentum) \d+%")
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
                          "  optimizer.lrr: {values: [0.1, 0.2]}\n"
                          "  trainer.max_epochs: {values: [1, two]}\n"
                          "  model.dropout: {values: [0.5, 7]}\n")  # fmt: skip
        told = self.swept(file, code=2).err()
        for text in (
            "sweep.yaml:5: with optimizer.lrr=0.1: optimizer.lrr: unknown key; did you mean lr?",
            "sweep.yaml:6: with trainer.max_epochs=two: trainer.max_epochs: expected int",
            "sweep.yaml:7: with model.dropout=7: model.dropout: expected float",
        ):
            self.assertIn(text, told)
        self.assertNotIn("trial_0000", told)
        self.assertEqual(len(told.splitlines()), 3, "each mistake once")

    def test_the_examples_are_right(self):
        for file in sorted((HERE.parents[1] / "configs/sweeps").glob("*.yaml")):
            with self.subTest(file.name):
                words = ["--slurm", "--dry-run", "--tasks", "3", "--storage", "postgresql://me@server/sweeps"]
                script = self.swept(f"sweeps/{file.name}", *words, "--sbatch=--gpus=1").out()
                self.assertIn("#SBATCH --array=0-2\n", script)
                self.assertIn("#SBATCH --gpus=1\n", script)


class Saved(unittest.TestCase):
    def line(self, *trials):
        return summary_line([types.SimpleNamespace(state=one, user_attrs={"seconds": seconds}) for one, seconds in trials])

    def test_is_what_pruned_trials_would_have_trained_longer(self):
        trials = [(State.COMPLETE, 50), (State.COMPLETE, 40), (State.COMPLETE, 90), (State.PRUNED, 20), (State.PRUNED, 45)]
        self.assertEqual(self.line(*trials), "5 trials: 3 done, 2 pruned; pruning saved about 35.0s of training")

    def test_is_not_told_where_the_pruned_took_as_long(self):
        self.assertEqual(self.line((State.COMPLETE, 3), (State.PRUNED, 4)), "2 trials: 1 done, 1 pruned")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""tools/lib/sweep: whether samplers find what is good, and pruners end what is bad. Nothing is trained."""

import contextlib
import math
import statistics
import unittest
import unittest.mock

import optuna
from optuna.trial import TrialState as State
from sweep_file_case import SweepFileTest  # first: it knows where the tools lie

from ddprun.errors import UserError
from sweep.active_trial import ActiveTrial
from sweep.proposals import Proposals
from sweep.study import SweepStudy

optuna.logging.set_verbosity(optuna.logging.ERROR)

VALLEY = """\
experiment: e.yaml
method: bayes
seed: 3
metric: {name: val/loss}
run_cap: 60
parameters:
  lr: {distribution: log_uniform_values, min: 1e-5, max: 1.0}
  momentum: {min: 0.0, max: 0.99}
  width: {value: 64}
"""
BEST = {"lr": 1e-2, "momentum": 0.8}  # the floor of the valley
RACE = """\
experiment: e.yaml
method: random
seed: 5
metric: {name: val/score, goal: maximize}
run_cap: 54
parameters:
  speed: {min: 0.0, max: 1.0}
"""
TRIALS, ITERATIONS = 54, 9


class Samplers(SweepFileTest):
    def trials(self, text, count=60):
        """Each is proposed by a sampler of its own, as trials of a sweep are, and told how far from the best it is."""
        sweep, trials = self.read(text), []
        distributions = {one.path: one.space.distribution() for one in sweep.parameters}
        for number in range(count):
            values, notes = Proposals(sweep, "s", optuna.pruners.NopPruner()).next(trials)
            trial = optuna.trial.create_trial(state=State.COMPLETE, params=values, distributions=distributions,
                                              value=distance(values), system_attrs=notes)  # fmt: skip
            trial.number = number
            trials.append(trial)
        return trials

    def test_they_stay_in_the_ranges_and_come_nearer_to_the_best(self):
        for sampler in ("tpe", "cmaes"):
            with self.subTest(sampler):
                trials = self.trials(VALLEY + f"sampler: {sampler}\n")
                for trial in trials:
                    self.assertTrue(1e-5 <= trial.params["lr"] <= 1, trial.params)
                    self.assertTrue(0 <= trial.params["momentum"] <= 0.99, trial.params)
                    self.assertEqual(trial.params["width"], 64)
                first, last = (statistics.median(one.value for one in part) for part in (trials[:15], trials[-15:]))
                self.assertLess(last, first / 2)

    def test_cmaes_is_what_proposes(self):
        """Without its package, or its notes of the trials before, other samplers would take its place unsaid."""
        trials = self.trials(VALLEY + "sampler: cmaes\n", count=20)
        noted = [trial for trial in trials if any(key.startswith("cma") for key in trial.system_attrs)]
        self.assertGreaterEqual(len(noted), 18)
        generations = [value for trial in noted for key, value in trial.system_attrs.items() if "generation" in key]
        self.assertGreater(max(generations), 1, "it begins anew with each trial")

    def test_cmaes_asks_for_its_package(self):
        sweep = self.read(VALLEY + "sampler: cmaes\n")
        with unittest.mock.patch("importlib.util.find_spec", lambda name: None):
            with self.assertRaisesRegex(UserError, "s.yaml: sampler: cmaes needs a package: .* -m pip install cmaes"):
                Proposals(sweep, "s", optuna.pruners.NopPruner())


def distance(values):
    return math.hypot(math.log10(values["lr"] / BEST["lr"]) / 5, values["momentum"] - BEST["momentum"])


class MadeRun:
    """Measures one value more each time somebody asks whether it is alive."""

    def __init__(self, path, speed):
        self.path, self.speed, self.measured, self.stopped = path, speed, [], False
        self.child = None

    def is_alive(self):
        if self.stopped or len(self.measured) == ITERATIONS:
            return False
        self.measured.append(self.speed * (1 - 0.5 / (len(self.measured) + 1)))
        return True

    def values(self):
        return self.measured

    def stop(self):
        self.stopped = True

    def summary(self):
        return {"status": "preempted" if self.stopped else "completed"}

    def exit_code(self):
        return 75 if self.stopped else 0


class InMemory:
    """A storage without files."""

    def __init__(self):
        self.optuna = optuna.storages.InMemoryStorage()

    def lock(self):
        return contextlib.nullcontext()


class Pruners(SweepFileTest):
    def race(self, early):
        """[(state, iterations, speed)] of trials of which the faster are better at every iteration, three at a time."""
        study = SweepStudy(self.read(RACE + early), InMemory(), "race", self.folder)
        slots, numbers = [], set()
        while True:
            while len(slots) < 3 and (trial := study.claim(numbers, more=True)):
                numbers.add(trial.number)
                slots.append(ActiveTrial(study, trial))
                slots[-1].run = MadeRun(self.folder / f"trial_{trial.number:04}", trial.params["speed"])
            if not slots:
                break
            for active in list(slots):
                if active.follow():
                    active.settle()
                    slots.remove(active)
        return [(one.state, len(one.intermediate_values), one.params["speed"]) for one in study.trials()]

    def assert_some_are_ended(self, trials):
        """Which saves much of the training, and does not touch the best."""
        self.assertEqual(len(trials), TRIALS)
        self.assertEqual(max(trials, key=lambda one: one[2])[0], State.COMPLETE, "the fastest was ended")
        for state, iterations, _ in trials:
            self.assertEqual(state, State.COMPLETE if iterations == ITERATIONS else State.PRUNED)
        self.assertLess(sum(iterations for _, iterations, _ in trials), 0.6 * TRIALS * ITERATIONS)

    def test_they_end_the_slow_and_let_the_fast_finish(self):
        for early in ("{type: asha, min_iter: 1, eta: 3}", "{type: median, min_iter: 1, min_trials: 4}"):
            with self.subTest(early):
                trials = self.race(f"early_terminate: {early}\n")
                self.assert_some_are_ended(trials)
                given = [iterations for _, iterations, _ in sorted(trials, key=lambda one: one[2])]
                slow, fast = (statistics.mean(part) for part in (given[: TRIALS // 3], given[-TRIALS // 3 :]))
                self.assertGreater(fast, 1.5 * slow)

    def test_hyperband_ends_the_slow_of_the_first_bracket_at_once(self):
        for early in ("{type: hyperband, min_iter: 1, max_iter: 9, eta: 3}", "{type: hyperband, max_iter: 9, s: 2}"):
            with self.subTest(early):
                trials = self.race(f"early_terminate: {early}\n")
                self.assert_some_are_ended(trials)
                at = {i: [speed for _, iterations, speed in trials if iterations == i] for i in (1, 3, 9)}
                self.assertLess(max(at[1]), max(at[3]))
                self.assertLess(max(at[3]), max(at[9]))
                self.assertGreater(len(at[1]), TRIALS // 4)

    def test_hyperband_has_brackets_that_begin_later(self):
        """A slow trial of a late bracket is given three iterations, or all; one of the first bracket is not."""
        trials = self.race("early_terminate: {type: hyperband, min_iter: 1, max_iter: 9, eta: 3}\n")
        self.assertEqual({iterations for _, iterations, speed in trials if speed < 0.3}, {1, 3, 9})
        of_asha = self.race("early_terminate: {type: asha, min_iter: 1, eta: 3}\n")
        self.assertEqual({iterations for _, iterations, speed in of_asha if speed < 0.3}, {1})

    def test_without_one_all_are_trained_to_the_end(self):
        self.assertEqual({(state, count) for state, count, _ in self.race("")}, {(State.COMPLETE, ITERATIONS)})


if __name__ == "__main__":
    unittest.main()

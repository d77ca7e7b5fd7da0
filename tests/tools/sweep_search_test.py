# SPDX-License-Identifier: MIT
"""tools/lib/sweep: whether samplers find what is good, and pruners end what is bad. Nothing is trained."""

import math
import statistics
import unittest

import optuna
from optuna.trial import TrialState as State
from sweep_test_case import SweepFileTest  # first: it knows where the tools lie

from sweep.proposals import Proposals
from sweep.storage import Storage
from sweep.study import SweepStudy
from sweep.trial import ActiveTrial

VALLEY = """\
experiment: e.yaml
method: tpe
seed: 3
metric: {name: val/loss}
run_cap: 60
parameters:
  lr: {low: 1e-5, high: 1.0, log: true}
  momentum: {low: 0.0, high: 0.99}
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
  speed: {low: 0.0, high: 1.0}
"""
TRIALS, ITERATIONS = 54, 9


class Samplers(SweepFileTest):
    def trials(self, method, count=60):
        """Each is proposed by a sampler of its own, as trials of a sweep are, and told how far from the best it is."""
        sweep, trials = self.read(VALLEY.replace("tpe", method)), []
        for number in range(count):
            values, notes = Proposals(sweep, "s").next(trials, number)
            trial = optuna.trial.create_trial(state=State.COMPLETE, params=values, distributions=sweep.distributions,
                                              value=distance(values), system_attrs=notes)  # fmt: skip
            trial.number = number
            trials.append(trial)
        return trials

    def test_they_stay_in_the_ranges_and_come_nearer_to_the_best(self):
        for method in ("tpe", "cmaes"):
            with self.subTest(method):
                trials = self.trials(method)
                for trial in trials:
                    self.assertTrue(1e-5 <= trial.params["lr"] <= 1, trial.params)
                    self.assertTrue(0 <= trial.params["momentum"] <= 0.99, trial.params)
                    self.assertEqual(trial.params["width"], 64)
                first, last = (statistics.median(one.value for one in part) for part in (trials[:15], trials[-15:]))
                self.assertLess(last, first / 2)

    def test_cmaes_is_what_proposes(self):
        """Without its notes of the trials before, it would begin anew with each; and other samplers might take its place unsaid."""
        trials = self.trials("cmaes", count=20)
        noted = [trial for trial in trials if any(key.startswith("cma") for key in trial.system_attrs)]
        self.assertGreaterEqual(len(noted), 18)
        generations = [value for trial in noted for key, value in trial.system_attrs.items() if "generation" in key]
        self.assertGreater(max(generations), 1)


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


class Pruners(SweepFileTest):
    def race(self, pruner=""):
        """[(state, iterations, speed)] of trials of which the faster are better at every iteration, three at a time."""
        (self.folder / "race.db").unlink(missing_ok=True)
        storage = Storage(f"sqlite:///{self.folder}/race.db?timeout=20", "race")
        for engine in (storage.engine, storage.optuna.engine):
            self.addCleanup(engine.dispose)
        study = SweepStudy(self.read(RACE + (f"pruner: {pruner}\n" if pruner else "")), storage, "race", self.folder)
        study.join()
        self.addCleanup(study.lock.close)
        running = []
        while True:
            while len(running) < 3 and (trial := study.claim(more=True)):
                running.append(ActiveTrial(study, trial, None))
                running[-1].run = MadeRun(self.folder / f"trial_{trial.number:04}", trial.params["speed"])
            if not running:
                break
            for active in list(running):
                if active.follow():
                    active.settle()
                    running.remove(active)
        return [(one.state, len(one.intermediate_values), one.params["speed"]) for one in study.trials()]

    def assert_some_are_ended(self, trials):
        """Which saves much of the training, and does not touch the best."""
        self.assertEqual(len(trials), TRIALS)
        self.assertEqual(max(trials, key=lambda one: one[2])[0], State.COMPLETE, "the fastest was ended")
        for state, iterations, _ in trials:
            self.assertEqual(state, State.COMPLETE if iterations == ITERATIONS else State.PRUNED)
        self.assertLess(sum(iterations for _, iterations, _ in trials), 0.6 * TRIALS * ITERATIONS)

    def test_they_end_the_slow_and_let_the_fast_finish(self):
        for pruner in ("{type: asha, min_resource: 1, reduction_factor: 3}", "{type: median, n_warmup_steps: 1, n_startup_trials: 4}"):
            with self.subTest(pruner):
                trials = self.race(pruner)
                self.assert_some_are_ended(trials)
                given = [iterations for _, iterations, _ in sorted(trials, key=lambda one: one[2])]
                slow, fast = (statistics.mean(part) for part in (given[: TRIALS // 3], given[-TRIALS // 3 :]))
                self.assertGreater(fast, 1.5 * slow)

    def test_hyperband_ends_the_slow_of_the_first_bracket_at_once_and_has_others_that_begin_later(self):
        trials = self.race("{type: hyperband, min_resource: 1, max_resource: 9, reduction_factor: 3}")
        self.assert_some_are_ended(trials)
        at = {i: [speed for _, iterations, speed in trials if iterations == i] for i in (1, 3, 9)}
        self.assertLess(max(at[1]), max(at[3]))
        self.assertLess(max(at[3]), max(at[9]))
        self.assertGreater(len(at[1]), TRIALS // 4)
        self.assertEqual({iterations for _, iterations, speed in trials if speed < 0.3}, {1, 3, 9})
        of_asha = self.race("{type: asha, min_resource: 1, reduction_factor: 3}")
        self.assertEqual({iterations for _, iterations, speed in of_asha if speed < 0.3}, {1})

    def test_without_one_all_are_trained_to_the_end(self):
        self.assertEqual({(state, count) for state, count, _ in self.race()}, {(State.COMPLETE, ITERATIONS)})


if __name__ == "__main__":
    unittest.main()

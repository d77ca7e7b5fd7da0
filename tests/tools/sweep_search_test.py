# SPDX-License-Identifier: MIT
"""tools/lib/sweep: what proposes trials, pruners that end what is bad, and that a trial has one process. Nothing is trained."""

import contextlib
import unittest

import optuna
from optuna.trial import TrialState as State
from sweep_test_case import SweepFileTest  # first: it knows where the tools lie

from sweep.proposals import Proposals
from sweep.storage import Storage
from sweep.study import SweepStudy, standing
from sweep.trial import ActiveTrial

VALLEY = """\
experiment: e.yaml
method: cmaes
seed: 3
metric: {name: val/loss}
run_cap: 60
parameters:
  lr: {low: 1e-5, high: 1.0, log: true}
  momentum: {low: 0.0, high: 0.99}
  width: {value: 64}
"""
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
    def test_cmaes_is_what_proposes(self):
        """Each trial is proposed by a sampler of its own, as in a sweep. Without its notes of the trials before, it would begin anew with each;
        and other samplers might take its place unsaid."""
        sweep, trials = self.read(VALLEY), []
        for number in range(20):
            values, notes = Proposals(sweep, "s").next(trials, number)
            trial = optuna.trial.create_trial(state=State.COMPLETE, params=values, distributions=sweep.distributions,
                                              value=values["momentum"], system_attrs=notes)  # fmt: skip
            trial.number = number
            trials.append(trial)
        noted = [trial for trial in trials if any(key.startswith("cma") for key in trial.system_attrs)]
        self.assertGreaterEqual(len(noted), 18)
        generations = [value for trial in noted for key, value in trial.system_attrs.items() if "generation" in key]
        self.assertGreater(max(generations), 1)


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
    """A storage without a file, and without other processes."""

    def __init__(self):
        self.optuna = optuna.storages.InMemoryStorage()
        self.optuna.record_heartbeat = lambda trial_id: None

    def lock(self):
        return contextlib.nullcontext()


class Studies(SweepFileTest):
    def study(self, text, storage):
        study = SweepStudy(self.read(text), storage, "race", self.folder)
        study.join()
        self.addCleanup(study.lock.close)
        return study

    def active(self, study, trial):
        active = ActiveTrial(study, trial, None)
        active.run = MadeRun(self.folder / active.name, trial.params["speed"])
        return active


class OtherMachines(Studies):
    def study(self):
        """The process of each is on a machine of its own, so that its lock is not seen by others."""
        storage = Storage(f"sqlite:///{self.folder}/race.db", "race")
        for engine in (storage.engine, storage.optuna.engine):
            self.addCleanup(engine.dispose)
        study = super().study(RACE, storage)
        study.owner = study.owner | {"host": f"machine of {study.owner['lock']}"}
        return study

    def say_nothing(self, study, seconds):
        with study.place.engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE trial_heartbeats SET heartbeat = datetime('now', '-{seconds} seconds')")

    def test_the_trial_of_one_that_was_silent_for_the_time_of_grace_is_another_s_with_its_values(self):
        first, second = self.study(), self.study()
        trial = first.claim(more=True)
        lost = self.active(first, trial)
        lost.follow()
        self.say_nothing(first, 50)
        self.assertIsNone(second.claim(more=False))
        self.say_nothing(first, 70)
        taken = second.claim(more=False)
        self.assertEqual((taken.params, taken.user_attrs["run"], taken.intermediate_values),
                         (trial.params, trial.user_attrs["run"], {1: lost.run.measured[0]}))  # fmt: skip
        self.assertIsNone(first.claim(more=False))
        lost.beat()
        lost.follow()
        self.assertEqual((lost.is_lost, lost.run.stopped), (True, True))
        self.assertIn("is continued by another process", lost.settle())
        second.finish(taken, State.COMPLETE, 0.5)
        self.assertEqual([(one.state, one.value) for one in standing(second.trials())], [(State.COMPLETE, 0.5)])


class Pruners(Studies):
    def race(self, pruner=""):
        """[(state, iterations, speed)] of trials of which the faster are better at every iteration, three at a time."""
        study = self.study(RACE + (f"pruner: {pruner}\n" if pruner else ""), InMemory())
        running = []
        while True:
            while len(running) < 3 and (trial := study.claim(more=True)):
                running.append(self.active(study, trial))
            if not running:
                break
            for active in list(running):
                if active.follow():
                    active.settle()
                    running.remove(active)
        return [(one.state, len(one.intermediate_values), one.params["speed"]) for one in study.trials()]

    def test_each_ends_many_and_does_not_touch_the_best(self):
        for pruner, slow_run in (("{type: asha, min_resource: 1, reduction_factor: 3}", {1}),
                                 ("{type: median, n_warmup_steps: 1, n_startup_trials: 4}", {1, 9}),
                                 ("{type: hyperband, min_resource: 1, max_resource: 9, reduction_factor: 3}", {1, 3, 9})):  # fmt: skip
            with self.subTest(pruner):
                trials = self.race(pruner)
                self.assertEqual(len(trials), TRIALS)
                self.assertEqual(max(trials, key=lambda one: one[2])[0], State.COMPLETE, "the fastest was ended")
                for state, iterations, _ in trials:
                    self.assertEqual(state, State.COMPLETE if iterations == ITERATIONS else State.PRUNED)
                self.assertLess(sum(iterations for _, iterations, _ in trials), 0.6 * TRIALS * ITERATIONS)
                self.assertEqual({iterations for _, iterations, speed in trials if speed < 0.3}, slow_run)

    def test_without_one_all_are_trained_to_the_end(self):
        self.assertEqual({(state, count) for state, count, _ in self.race()}, {(State.COMPLETE, ITERATIONS)})


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Chooses the values of the next trial with Optuna's samplers."""

import hashlib
import secrets

import optuna
from optuna.trial import TrialState as State

ASKED_AGAIN = 10  # times, of a sampler that repeats itself


class Proposals:
    """Asks a sampler that is made anew for each trial, on a copy of the study: what a sweep tries does not depend on
    interruptions, and the storage gets a trial with all of its values, or none.
    """

    def __init__(self, sweep, name):
        self.sweep, self.name = sweep, name

    def next(self, trials, number):
        """Returns (values, the sampler's notes) for the trial of this number, after these; None if all have been tried.
        No two have the same values.
        """
        tried = {key(trial.params) for trial in trials}
        size = self.sweep.size()
        if size is not None and len(tried) >= size:
            return None
        study = self.copy(trials, number)
        for _ in range(ASKED_AGAIN):
            asked = study.ask(self.sweep.distributions)
            if key(asked.params) not in tried:
                break
        else:
            if size is not None:
                study.sampler = optuna.samplers.BruteForceSampler(self.seed(number))
                asked = study.ask(self.sweep.distributions)
        return asked.params, study.get_trials(deepcopy=False)[asked.number].system_attrs

    def copy(self, trials, number):
        direction = "maximize" if self.sweep.metric.maximize else "minimize"
        study = optuna.create_study(
            study_name=self.name, sampler=self.sampler(self.seed(number)), pruner=self.sweep.pruner, direction=direction
        )
        study.add_trials(trial for trial in trials if trial.state != State.WAITING)  # those it would give out itself
        return study

    def seed(self, number):
        if self.sweep.seed is None:
            return secrets.randbits(31)
        return int.from_bytes(hashlib.sha256(f"{self.sweep.seed} {number}".encode()).digest()[:4]) >> 1

    def sampler(self, seed):
        if self.sweep.method == "grid":
            return optuna.samplers.BruteForceSampler(seed)
        if self.sweep.method == "random":
            return optuna.samplers.RandomSampler(seed)
        if self.sweep.method == "cmaes":
            return optuna.samplers.CmaEsSampler(seed=seed)
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True)


def key(values):
    return tuple(sorted((path, repr(value)) for path, value in values.items()))

# SPDX-License-Identifier: MIT
"""Proposes the values of the next trial, never those of an earlier trial."""

import hashlib
import importlib.util
import itertools
import random
import secrets
import sys

import optuna

from ddprun.errors import UserError

ASKED_AGAIN = 10  # times, of a sampler that repeats itself
DRAWN_AGAIN = 1000
LISTED = 100_000  # combinations of which those left over can be listed


class Proposals:
    """Samples values. A new sampler for each trial is seeded by the sweep's seed and the trial's number: what a sweep
    tries does not depend on interruptions, and no two processes draw the same.
    """

    def __init__(self, sweep, name, pruner):
        self.sweep, self.name, self.pruner = sweep, name, pruner
        if sweep.sampler == "cmaes" and not importlib.util.find_spec("cmaes"):
            raise UserError(f"{sweep.file}: sampler: cmaes needs a package: {sys.executable} -m pip install cmaes")
        self.spaces = {one.path: one.space for one in sweep.parameters}
        self.searched = {one.path: one.space for one in sweep.searched}

    def next(self, trials):
        """Returns (values, the sampler's own notes) for a trial after these; None if all have been tried."""
        tried = {self.key(trial.params) for trial in trials}
        size = self.sweep.size()
        if size is not None and len(tried) >= size:
            return None
        if self.sweep.method == "grid":
            return self.first_untried(tried), {}
        number = len(trials)
        if self.sweep.method == "bayes":
            if found := self.ask(trials, tried, number):
                return found
        return self.draw(tried, random.Random(self.seed(number)), size), {}

    def key(self, values):
        return tuple(repr(values.get(path)) for path in self.spaces)

    def seed(self, number):
        if self.sweep.seed is None:
            return secrets.randbits(31)
        return int.from_bytes(hashlib.sha256(f"{self.sweep.seed} {number}".encode()).digest()[:4]) >> 1

    def combinations(self):
        """Counts up in the order of the file; the last parameter changes first."""
        for values in itertools.product(*(space.all_values() for space in self.spaces.values())):
            yield dict(zip(self.spaces, values))

    def first_untried(self, tried):
        return next((values for values in self.combinations() if self.key(values) not in tried), None)

    def draw(self, tried, generator, size):
        for _ in range(DRAWN_AGAIN):
            values = {path: space.draw(generator) for path, space in self.spaces.items()}
            if self.key(values) not in tried:
                return values
        if size is None or size > LISTED:
            return None
        return generator.choice([values for values in self.combinations() if self.key(values) not in tried])

    def ask(self, trials, tried, number):
        """Runs Optuna's sampler on a copy of the study: a second try leaves no trace in the storage."""
        direction = "maximize" if self.sweep.metric.maximize else "minimize"
        sampler = self.sampler(self.seed(number))
        study = optuna.create_study(study_name=self.name, sampler=sampler, pruner=self.pruner, direction=direction)
        study.add_trials(trials)
        distributions = {path: space.distribution() for path, space in self.searched.items()}
        constant = {path: space.probes()[0] for path, space in self.spaces.items() if path not in self.searched}
        for _ in range(ASKED_AGAIN):
            asked = study.ask(distributions)
            values = {path: space.near(asked.params[path]) for path, space in self.searched.items()}
            values = {path: values.get(path, constant.get(path)) for path in self.spaces}
            if self.key(values) not in tried:
                return values, study.get_trials(deepcopy=False)[-1].system_attrs
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
        return None

    def sampler(self, seed):
        if self.sweep.sampler == "cmaes":
            return optuna.samplers.CmaEsSampler(seed=seed)
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True, n_startup_trials=self.drawn_first())

    def drawn_first(self):
        """Returns the number of random trials before TPE has something to learn from: Optuna's ten, or a quarter of a
        short sweep.
        """
        cap = self.sweep.run_cap
        return min(10, max(3, cap // 4)) if cap else 10

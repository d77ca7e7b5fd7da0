# SPDX-License-Identifier: MIT
"""Keeps the sweep as Optuna's study: which process has which trial, and how each trial
ended.
"""

import pathlib

import optuna

from ddprun.errors import UserError
from sweep.processes import Processes
from sweep.proposals import Proposals
from sweep.space import override_text

State = optuna.trial.TrialState
SPEC = "sweep"  # of the study's user attributes
OWNER = "process"  # of a trial's: whose trial it is
PRUNING = "pruning"  # at which iteration it was decided
REASON = "reason"  # why it failed
AGAIN = "again"  # the number of the failed trial that this one tries again
RUN = "run"  # its run's folder: on another machine it may be another


def trial_name(number):
    return f"trial_{number:04}"


def run_path(trial):
    return pathlib.Path(trial.user_attrs[RUN])


def not_tried_again(trials):
    """Returns the trials but for those that have failed and whose values another has: these do not count."""
    again = tried_again(trials)
    return [trial for trial in trials if trial.number not in again]


def tried_again(trials):
    """Returns {number of a failed trial: number of the one that tries it again}."""
    return {trial.user_attrs[AGAIN]: trial.number for trial in trials if AGAIN in trial.user_attrs}


class SweepStudy:
    def __init__(self, sweep, storage, name, folder, grace=60):
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.sweep, self.place, self.name, self.folder = sweep, storage, name, folder
        self.pruner = sweep.early_stop.pruner() if sweep.early_stop else optuna.pruners.NopPruner()
        with storage.lock():
            self.study = optuna.create_study(
                study_name=name, storage=storage.optuna, pruner=self.pruner, load_if_exists=True,
                direction="maximize" if sweep.metric.maximize else "minimize")  # fmt: skip
        self.storage = storage.optuna
        self.id = self.storage.get_study_id_from_name(name)
        self.processes = Processes(self.storage, self.id, folder, grace)
        self.proposals = Proposals(sweep, name, self.pruner)

    def require_same(self, overrides):
        """Checks that a resumed sweep is the one that was started."""
        mine = self.sweep.identity(overrides)
        with self.place.lock():
            known, trials = self.study.user_attrs.get(SPEC), self.trials()
            self.refuse_other_studies(len(trials))
            if known is None or not trials:
                self.study.set_metric_names([self.sweep.metric.name])  # else a dashboard calls it Objective 0
                return self.study.set_user_attr(SPEC, mine)
        changed = [key for key in mine if key != "digest" and known.get(key) != mine[key]] or ["parameters"]
        if "overrides" in changed:
            changed[changed.index("overrides")] = f"overrides ({' '.join(known.get('overrides') or ['none'])})"
        if known["digest"] != mine["digest"]:
            raise UserError(
                f"{self.sweep.file}: the sweep {self.name} was begun with other {' and '.join(changed)}, and its trials"
                f" could not be compared: begin another with --name, or remove {self.folder}"
            )

    def refuse_other_studies(self, count):
        """Refuses runs in our folder that the study does not know: they have other values than we would give them."""
        strange = [path.name for path in sorted(self.folder.glob("trial_*")) if path.name >= trial_name(count)]
        if strange:
            raise UserError(
                f"{self.folder / strange[0]} is there, but the study {self.name} in {self.place.text()} has no such"
                " trial: move the folder away, or choose another with --out"
            )

    def trials(self):
        return self.study.get_trials(deepcopy=False)

    # Whose a trial is

    def claim(self, mine, more):
        """Returns a trial for this process: one that a dead process has left, else a new one if `more` are wanted; None
        if there is nothing to do now. `mine`: the numbers of this process's trials.
        """
        with self.place.lock():
            trials = self.trials()
            if left := self.left_behind(trials, mine):
                return self.take_over(left[0])
            counted = not_tried_again(trials)
            if not more or len(counted) >= (self.sweep.cap() or len(counted) + 1) or self.target_reached(counted):
                return None
            proposed = self.proposals.next(counted)
            return None if proposed is None or proposed[0] is None else self.create(len(trials), *proposed)

    def try_failed_again(self):
        """Makes a trial of the same values for each that has failed, as if a dead process had left it. Returns their number."""
        with self.place.lock():
            trials = self.trials()
            failed = [one for one in not_tried_again(trials) if one.state == State.FAIL]
            for number, trial in enumerate(failed, len(trials)):
                self.create(number, trial.params, {}, **{OWNER: "", AGAIN: trial.number})
            return len(failed)

    def take_over(self, trial):
        if trial.user_attrs[RUN] != self.run_of(trial.number):
            self.note(trial, **{RUN: self.run_of(trial.number)})
        self.note(trial, **{OWNER: self.processes.id})
        return self.storage.get_trial(trial._trial_id)

    def left_behind(self, trials, mine):
        """Returns trials under way that nobody follows, including ours that we do not know of: the storage failed while
        we started them.
        """
        under_way = [trial for trial in trials if trial.state == State.RUNNING]
        dead = self.processes.dead({trial.user_attrs.get(OWNER) for trial in under_way})
        dead.add(self.processes.id)
        return [one for one in under_way if one.user_attrs.get(OWNER) in dead and one.number not in mine]

    def run_of(self, number):
        return str(self.folder / trial_name(number))

    def create(self, number, values, notes, **attributes):
        """Creates a trial in one transaction, whoever is killed when."""
        spaces = {one.path: one.space.distribution() for one in self.sweep.parameters}
        words = [f"{path}={override_text(value)}" for path, value in values.items()]
        notes_of_ours = {OWNER: self.processes.id, RUN: self.run_of(number), "overrides": words} | attributes
        template = optuna.trial.create_trial(
            state=State.RUNNING, params=values, distributions=spaces, user_attrs=notes_of_ours, system_attrs=notes
        )
        return self.storage.get_trial(self.storage.create_new_trial(self.id, template))

    def target_reached(self, trials):
        metric = self.sweep.metric
        return metric.target is not None and any(
            one.state == State.COMPLETE and metric.reached(one.value) for one in trials
        )

    def is_over(self):
        """Returns whether no trial is under way anywhere."""
        return not any(trial.state == State.RUNNING for trial in self.trials())

    # What becomes of it

    def note(self, trial, **attributes):
        for key, value in attributes.items():
            self.storage.set_trial_user_attr(trial._trial_id, key, value)

    def report(self, trial, iteration, value):
        self.storage.set_trial_intermediate_value(trial._trial_id, iteration, value)

    def should_prune(self, trial, iteration):
        early = self.sweep.early_stop
        if not early or not early.may_end(iteration):
            return False
        return self.pruner.prune(self.study, self.storage.get_trial(trial._trial_id))

    def finish(self, trial, state, value=None, **attributes):
        """Returns False if another process has taken the trial over, which then reports it."""
        with self.place.lock():
            now = self.storage.get_trial(trial._trial_id)
            if now.state.is_finished() or now.user_attrs.get(OWNER) != self.processes.id:
                return False
            self.note(trial, **attributes)
            return self.storage.set_trial_state_values(trial._trial_id, state, None if value is None else [value])

    def release(self, trial):
        self.note(trial, **{OWNER: ""})

# SPDX-License-Identifier: MIT
"""Keeps the sweep as Optuna's study: which process has which trial, and how each trial ended."""

import contextlib
import copy
import fcntl
import pathlib
import secrets
import socket

import optuna
from optuna.storages import RetryHeartbeatStaleTrialCallback as Retry
from optuna.trial import TrialState as State

from ddprun.errors import UserError
from ddprun.lock import is_held
from sweep.proposals import Proposals

SPEC = "sweep"  # of the study's user attributes
RUN = "run"  # of a trial's: its run's folder
OWNER = "process"  # which process has it
PRUNING = "pruning"  # at which iteration it was decided
REASON = "reason"  # why it failed; one that has none was interrupted, and is to be resumed
PROCESSES = "processes"  # in the sweep's folder: a file for each process, locked while it lives


def run_path(trial):
    return pathlib.Path(trial.user_attrs[RUN])


def trial_name(trial):
    return run_path(trial).name


def tried_again(trials):
    """Returns {number of a trial that was interrupted, or that failed: the newest one that tries it again}. Optuna notes in
    each which it follows.
    """
    return {number: trial for trial in trials for number in Retry.retry_history(trial)}


def next_number(trials):
    return len({trial_name(trial) for trial in trials})


def standing(trials):
    """Returns those that count: each once, however often it was tried."""
    again = tried_again(trials)
    return [trial for trial in trials if trial.number not in again]


def was_interrupted(trial):
    return trial.state == State.FAIL and REASON not in trial.user_attrs


class SweepStudy:
    def __init__(self, sweep, storage, name, folder):
        self.sweep, self.place, self.name, self.folder = sweep, storage, name, folder
        self.storage = storage.optuna
        with storage.lock():
            self.study = optuna.create_study(
                study_name=name, storage=self.storage, pruner=sweep.pruner or optuna.pruners.NopPruner(), load_if_exists=True,
                direction="maximize" if sweep.metric.maximize else "minimize")  # fmt: skip
        self.id = self.storage.get_study_id_from_name(name)
        self.proposals = Proposals(sweep, name)
        self.owner = {}

    def require_same(self, overrides):
        """Checks that a resumed sweep is the one that was started."""
        mine = self.sweep.identity(overrides)
        with self.place.lock():
            known, trials = self.study.user_attrs.get(SPEC), self.trials()
            self.refuse_other_studies(trials)
            if known is None or not trials:
                self.study.set_metric_names([self.sweep.metric.name])  # else a dashboard calls it Objective 0
                return self.study.set_user_attr(SPEC, mine)
        changed = [key for key in mine if known.get(key) != mine[key]]
        if "overrides" in changed:
            changed[changed.index("overrides")] = f"overrides ({' '.join(known['overrides']) or 'none'})"
        if changed:
            raise UserError(
                f"{self.sweep.file}: the sweep {self.name} was begun with other {' and '.join(changed)}, and its trials"
                f" could not be compared: begin another with --name, or remove {self.folder}"
            )

    def refuse_other_studies(self, trials):
        """Refuses runs in our folder that the study does not know: they have other values than we would give them."""
        known = {trial_name(trial) for trial in trials}
        strange = [path for path in sorted(self.folder.glob("trial_*")) if path.name not in known]
        if strange:
            raise UserError(
                f"{strange[0]} is there, but the study {self.name} in {self.place.text()} has no such trial: move the"
                " folder away, or choose another with --out"
            )

    def trials(self):
        """Returns all of them, with those that were tried again."""
        return self.study.get_trials(deepcopy=False)

    # Whose a trial is

    def join(self):
        """Makes this process known to others of this machine, which then know when it is dead."""
        (self.folder / PROCESSES).mkdir(exist_ok=True)
        lock = self.folder / PROCESSES / secrets.token_hex(4)
        self.lock = open(lock, "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.owner = {"host": socket.gethostname(), "lock": str(lock)}

    def claim(self, more):
        """Returns a trial for this process: one that waits since another was interrupted, else a new one if `more` are
        wanted; None if there is nothing to do now.
        """
        with self.place.lock():
            trials = self.requeue_interrupted()
            waiting = [trial for trial in trials if trial.state == State.WAITING]
            if waiting:
                return self.take(waiting[0])
            proposed = self.proposals.next(trials, next_number(trials)) if more and self.wants_more(trials) else None
            return self.take(self.create(trials, *proposed)) if proposed else None

    def requeue_interrupted(self):
        """Fails the trials of dead processes: of other machines by their silence, of this one at once. Whatever was
        interrupted then waits again, with its values and its folder, as a new trial of Optuna's. Returns all trials.
        """
        optuna.storages.fail_stale_trials(self.study)
        trials = self.trials()
        if dead := [one for one in trials if one.state == State.RUNNING and is_dead(one.user_attrs[OWNER])]:
            for trial in dead:
                self.study.tell(trial.number, state=State.FAIL)
            trials = self.trials()
        interrupted = [trial for trial in standing(trials) if was_interrupted(trial)]
        for trial in interrupted:
            Retry(inherit_intermediate_values=True)(self.study, copy.deepcopy(trial))
        return self.trials() if interrupted else trials

    def wants_more(self, trials):
        counted, metric = standing(trials), self.sweep.metric
        reached = any(one.state == State.COMPLETE and metric.reached(one.value) for one in counted)
        return not reached and len(counted) < (self.sweep.cap() or len(counted) + 1)

    def try_failed_again(self):
        """Makes a trial of the same values, in a folder of its own, for each that has failed. Returns their number."""
        with self.place.lock():
            failed = [one for one in standing(self.trials()) if one.state == State.FAIL and REASON in one.user_attrs]
            for trial in failed:
                history = [*Retry.retry_history(trial), trial.number]
                self.create(self.trials(), trial.params, {"failed_trial": history[0], "retry_history": history})
            return len(failed)

    def create(self, trials, values, notes):
        """Creates a trial after these in one transaction, no matter what is killed when. It waits to be taken."""
        trial = optuna.trial.create_trial(
            state=State.WAITING, params=values, distributions=self.sweep.distributions, system_attrs=notes,
            user_attrs={RUN: str(self.folder / f"trial_{next_number(trials):04}"), OWNER: self.owner})  # fmt: skip
        return self.storage.get_trial(self.storage.create_new_trial(self.id, trial))

    def take(self, trial):
        self.storage.record_heartbeat(trial._trial_id)  # first: one that runs without a heartbeat is never found dead
        self.note(trial, **{RUN: str(self.folder / trial_name(trial)), OWNER: self.owner})
        self.storage.set_trial_state_values(trial._trial_id, State.RUNNING)
        return self.storage.get_trial(trial._trial_id)

    def beat(self, trial):
        """Returns whether the trial is still ours: one that was silent for too long is another's."""
        self.storage.record_heartbeat(trial._trial_id)
        return not self.storage.get_trial(trial._trial_id).state.is_finished()

    def is_over(self):
        """Returns whether no trial is under way anywhere, or waits."""
        return not any(was_interrupted(one) or not one.state.is_finished() for one in standing(self.trials()))

    # What becomes of it

    def note(self, trial, **attributes):
        for key, value in attributes.items():
            if trial.user_attrs.get(key) != value:
                self.storage.set_trial_user_attr(trial._trial_id, key, value)

    def report(self, trial, iteration, value):
        self.storage.set_trial_intermediate_value(trial._trial_id, iteration, value)

    def should_prune(self, trial, iteration):
        """One at the last iteration may finish, since nothing would be saved."""
        pruner, last = self.sweep.pruner, self.sweep.last_iteration
        if pruner is None or last and iteration >= last:
            return False
        return pruner.prune(self.study, self.storage.get_trial(trial._trial_id))

    def finish(self, trial, state, value=None, **attributes):
        with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):  # another process has taken it over
            self.note(trial, **attributes)
            self.study.tell(trial.number, value, state, skip_if_finished=True)

    def release(self, trial):
        """Leaves it to what comes next."""
        self.study.tell(trial.number, state=State.FAIL, skip_if_finished=True)


def is_dead(owner):
    """Returns whether a process of this machine has ended; of others their heartbeats show it."""
    return owner["host"] == socket.gethostname() and is_held(pathlib.Path(owner["lock"])) is False

# SPDX-License-Identifier: MIT
import dataclasses
import os
import sys
import time

from ddprun.errors import UserError
from ddprun.terminal import printable
from sweep.space import value_text
from sweep.storage import ERRORS, explain
from sweep.trial import ActiveTrial

POLL_SECONDS = 0.02  # between two looks at the runs
CLAIM_SECONDS = 1  # between two looks for trials, where there was none
ASK_SECONDS = 2  # between two looks for a storage that does not answer
PATIENCE_SECONDS = 600  # with it


@dataclasses.dataclass
class Slot:
    """Room for a trial. `gpus` for CUDA_VISIBLE_DEVICES; None: as in our own environment."""

    gpus: str | None = None
    active: ActiveTrial | None = None

    def environment(self):
        return dict(os.environ) if self.gpus is None else os.environ | {"CUDA_VISIBLE_DEVICES": self.gpus}


def make_slots(jobs, gpus):
    """Distributes GPUs evenly: several per trial if there are more of them than trials, otherwise several trials per
    GPU.
    """
    if not gpus:
        return [Slot() for _ in range(jobs or 1)]
    jobs = jobs or len(gpus)
    each = max(len(gpus) // jobs, 1)
    return [Slot(",".join(gpus[i * each % len(gpus) :][:each])) for i in range(jobs)]


def threads_override(experiment, jobs, overrides):
    """Returns the cores per worker, shared by all workers of all trials, unless the experiment sets them."""
    launch = experiment.get("launch") or {}
    given = any(word.lstrip("+~").startswith("launch.threads") for word in overrides)
    if given or launch.get("threads", "auto") != "auto":
        return []
    workers = launch.get("workers", "auto")
    trials = jobs * (workers if isinstance(workers, int) else 1)
    return [f"++launch.threads={max(len(os.sched_getaffinity(0)) // trials, 1)}"]


class Sweeper:
    """Runs trials in its slots until none is left. The next call continues what a killed one was doing."""

    def __init__(self, study, program, slots, words, stopping):
        self.study, self.program, self.slots, self.words, self.stopping = study, program, slots, words, stopping
        self.next_claim, self.next_beat = 0, 0
        self.silent_since = None  # the storage
        self.refusal = None  # why no trial can be of use

    def run(self):
        """Returns True if the sweep is done, False if it was stopped."""
        try:
            while not self.look_patiently():
                time.sleep(POLL_SECONDS if self.silent_since is None else ASK_SECONDS)
        except BaseException:
            self.stop_all()  # they save, and the next call continues them
            raise
        if self.refusal:
            raise UserError(self.refusal)
        return not self.stopping.is_set()

    def look_patiently(self):
        """Tolerates a storage that is away for a while: only requests to it wait, the runs continue."""
        try:
            done = self.look_around()
        except ERRORS as error:
            now = time.monotonic()
            if self.silent_since is None:
                self.silent_since = now
                say(f"{explain(self.study.place, error)}; the trials continue, and it is asked again")
            if self.study.place.is_gone() or self.stopping.is_set() or now - self.silent_since > PATIENCE_SECONDS:
                raise
            return False
        if self.silent_since is not None:
            say("the storage answers again")
            self.next_claim = time.monotonic() + 2 * ASK_SECONDS  # until others have said that they live
        self.silent_since = None
        return done

    def look_around(self):
        """Runs one round. Returns True when there is nothing left to do."""
        self.beat()
        for slot in self.busy():
            if self.stopping.is_set():
                slot.active.run.stop()
            if slot.active.follow():
                self.settle(slot)
        none_left = not self.stopping.is_set() and self.fill_slots()
        return not self.busy() and (self.stopping.is_set() or none_left and self.study.is_over())

    def busy(self):
        return [slot for slot in self.slots if slot.active]

    def beat(self):
        if time.monotonic() >= self.next_beat:
            for slot in self.busy():
                slot.active.beat()
            self.next_beat = time.monotonic() + self.study.place.beat_seconds

    def stop_all(self):
        for slot in self.busy():
            slot.active.run.stop()

    # Begin

    def fill_slots(self):
        """Returns True if there was no trial for a free slot."""
        while free := [slot for slot in self.slots if not slot.active]:
            if time.monotonic() < self.next_claim:
                return False
            trial = self.study.claim(more=self.refusal is None)
            if trial is None:
                self.next_claim = time.monotonic() + CLAIM_SECONDS
                return True
            self.begin(trial, free)
        return False

    def begin(self, trial, free):
        """Puts it into its previous slot if there is one: its run may still be there."""
        slot = next((one for one in free if one.gpus == trial.user_attrs.get("gpus")), free[0])
        slot.active = ActiveTrial(self.study, trial, slot)
        if slot.active.must_be_started():
            self.start(slot.active)
        else:
            say(f"{slot.active.name}  under way since an earlier call: followed")

    def start(self, active):
        words = " ".join(f"{path}={value_text(value)}" for path, value in active.trial.params.items())
        say(f"{active.name}  {'continues: ' if active.run.has_begun() else ''}{words}")
        active.start(self.program, self.words)

    # End

    def settle(self, slot):
        active = slot.active
        text = active.settle()
        if text is None:
            if active.run.child is None and not self.stopping.is_set():
                return self.start(active)  # it ended with the process that had begun it
            text = "was interrupted"
            if not self.stopping.is_set():
                text += " by somebody else: so is the sweep; the same command continues it"
                self.stopping.set()
            self.study.release(active.trial)
        slot.active, self.next_claim = None, 0
        if active.has_no_metric:
            cause = text.removeprefix("failed: ")
            self.refusal = f"{self.study.sweep.file}: metric.name: {active.name} has ended, but {cause}"
        say(f"{active.name}  {text}")


def say(text):
    print(f"sweep: {printable(text)}", file=sys.stderr, flush=True)

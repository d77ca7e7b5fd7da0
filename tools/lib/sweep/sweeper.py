# SPDX-License-Identifier: MIT
import os
import select
import sys
import time

from ddprun.errors import UserError
from ddprun.terminal import printable
from sweep.active_trial import ActiveTrial
from sweep.storage import ERRORS, explain

POLL_SECONDS = 0.1  # between two looks at what the runs have measured
CLAIM_SECONDS = 1  # between two looks for trials, where there was none
ASK_SECONDS = 2  # between two looks for a storage that does not answer
PATIENCE_SECONDS = 600  # with it


class Sweeper:
    """Runs trials in its slots until none is left. The next call continues what a killed one was doing."""

    def __init__(self, study, program, slots, words, stopping):
        self.study, self.program, self.slots, self.words, self.stopping = study, program, slots, words, stopping
        self.numbers = set()  # of the trials that were ours
        self.next_claim = 0
        self.silent_since = None  # the storage
        self.refusal = None  # why no trial can be of use

    def run(self):
        """Returns True if the sweep is done, False if it was stopped."""
        while not self.patiently(self.look_around):
            self.wait()
        if self.refusal:
            raise UserError(self.refusal)
        return not self.stopping.is_set()

    def patiently(self, action):
        """Tolerates a storage that is away for a while: only requests to it wait, the runs continue."""
        try:
            result = action()
        except (*ERRORS, FileNotFoundError) as error:
            self.require_storage(error)
            now = time.monotonic()
            if self.silent_since is None:
                self.silent_since = now
                say(explain(self.study.place, error))
                say("the trials continue, and it is asked again")
            if now - self.silent_since > PATIENCE_SECONDS or self.stopping.is_set():
                self.stop_all()
                raise
            return False
        if self.silent_since is not None:
            say("the storage answers again")
        self.silent_since = None
        return result

    def require_storage(self, error):
        """Raises if the storage was removed, since it does not come back; other missing files are not its problem."""
        if self.study.place.is_gone():
            self.stop_all()
            raise UserError(f"{explain(self.study.place, error)}; the trials under way save, and end") from None
        if isinstance(error, FileNotFoundError):
            raise error

    def look_around(self):
        """Runs one round. Returns True when there is nothing left to do."""
        self.study.processes.say_hello()
        none_left = not self.stopping.is_set() and self.fill_slots()
        for slot in self.busy():
            if self.stopping.is_set():
                slot.active.run.stop()
            if slot.active.follow():
                self.settle(slot)
        if self.busy():
            return False
        return self.stopping.is_set() or none_left and self.study.is_over()

    def busy(self):
        return [slot for slot in self.slots if slot.active]

    def wait(self):
        """Waits until one of the runs ends, or for a moment."""
        ends = [end for slot in self.busy() if (end := slot.active.run.process()) is not None]
        select.select(ends, [], [], self.pause())
        for end in ends:
            os.close(end)

    def pause(self):
        if self.silent_since is not None:
            return ASK_SECONDS
        wanted = (
            self.next_claim == 0 and not self.stopping.is_set()
        )  # a trial has just ended: there is room for another
        return 0 if wanted else POLL_SECONDS

    # Begin

    def fill_slots(self):
        """Returns True if there was no trial for a free slot."""
        while free := [slot for slot in self.slots if not slot.active]:
            if time.monotonic() < self.next_claim:
                return False
            self.next_claim = time.monotonic()
            trial = self.study.claim(self.numbers, more=self.refusal is None)
            if trial is None:
                self.next_claim = time.monotonic() + CLAIM_SECONDS
                return True
            self.begin(ActiveTrial(self.study, trial), free)
        return False

    def begin(self, active, free):
        """Puts it into its previous slot if there is one: its run may still be there."""
        gpus = active.trial.user_attrs.get("gpus")
        slot = next((one for one in free if one.gpus == gpus), free[0])
        slot.active = active
        self.numbers.add(active.trial.number)
        if active.must_be_started():
            self.start(slot)
        else:
            say(f"{active.name}  under way since an earlier call: followed")

    def start(self, slot):
        again = slot.active.run.has_begun()
        words = " ".join(slot.active.trial.user_attrs["overrides"])
        say(f"{slot.active.name}  {'continues: ' if again else ''}{words}")
        slot.active.start(self.program, self.words, slot)

    # End

    def settle(self, slot):
        active = slot.active
        state, text = active.settle()
        if state is None and not self.stopping.is_set():
            if active.run.child is None:
                return self.start(slot)  # it ended with the process that had begun it
            say(f"{active.name}  {text} by somebody else: so is the sweep; the same command continues it")
            self.stopping.set()
        slot.active = None
        self.next_claim = 0
        if state is None:
            self.numbers.discard(active.trial.number)
            self.study.release(active.trial)
        if active.has_no_metric:
            self.refusal = (
                f"{self.study.sweep.file}: metric.name: {active.name} has ended, but {text.removeprefix('failed: ')}"
            )
        say(f"{active.name}  {text}")

    def stop_all(self):
        for slot in self.busy():
            slot.active.run.stop()


def say(text):
    print(f"sweep: {printable(text)}", file=sys.stderr, flush=True)

# SPDX-License-Identifier: MIT
import contextlib
import time

from ddprun.errors import UserError
from ddprun.rows import read_lines
from follow.items import Items
from follow.journal import FILES, Journal
from follow.messages import first_line, say

LONGEST_PAUSE = 60  # seconds between two tries of what a tracker did not take
PATIENCE = 900  # seconds of them, until it is given up
QUIET_SECONDS = 600  # without a new line, and without a sign of whoever runs it: then the run is taken for dead


class Follower:
    """A run and its counterpart in a tracker."""

    def __init__(self, tracker, run, options):
        self.run, self.options = run, options
        self.tracker = tracker(run, options)
        self.journal = Journal(run, options.to)
        self.tracker.word = self.journal.word
        self.begun = False
        self.items = Items(run.path)
        self.sent = 0
        self.last_news = time.monotonic()
        self.todo, self.made = [], None  # the batches that are noted, and not sent to their end; the first one's items
        self.step = self.next = 0  # the number of the next batch's first item; of the item that is sent next
        self.tries = Tries(run.path)

    # What there is to be sent

    def is_over(self):
        """Returns whether nothing more will come. Asked before the last lines are read."""
        held = self.run.is_held()
        if held or self.run.summary:
            return not held
        was_killed = held is False and self.run.was_started_here()
        return was_killed or time.monotonic() - self.last_news > QUIET_SECONDS

    def new_ends(self):
        reached = self.journal.reached()
        return {name: read_lines(self.run.path / name, reached.get(name, 0))[1] for name in FILES}

    def is_done(self):
        """Returns whether an earlier call has sent everything."""
        return self.journal.is_complete(self.ending()) and self.new_ends() == self.journal.reached()

    def ending(self):
        return {"attempt": self.run.attempt, "status": self.status()}

    def status(self):
        """Returns the status in summary.json; "killed" if the run could not write one."""
        summary = self.run.summary
        return summary.get("status", "failed") if summary else "killed"

    def odd_lines(self):
        return f"{self.items.odd} lines are not as ddprun writes them, and were left out"

    # Sending it

    def begin(self):
        """Opens the tracker's run, and finds what was noted but never arrived: poll() sends it first."""
        known = self.journal.header
        self.require_same_place(known)
        header = self.tracker.open(known)
        if not known:
            self.journal.begin(header)
        arrived = self.tracker.arrived()
        if arrived is None:
            arrived = self.journal.arrived
        self.next, self.todo = arrived, self.journal.from_step(arrived)
        self.begun = True

    def require_same_place(self, header):
        for key in ("project", "entity", "uri"):
            asked, known = getattr(self.options, key), header.get(key)
            if asked and known and asked != known:
                raise UserError(
                    f"{self.run.path} belongs to the {key} {known} of {self.options.to}, not {asked}; without --{key} it goes"
                    " on there"
                )

    def send_batch(self):
        """Sends the first batch to be sent; one that an error has broken off, from the item where it was."""
        batch = self.todo[0]
        self.made = self.items.of(batch) if self.made is None else self.made
        for number, item in enumerate(self.made, batch.step):
            if number >= self.next:
                self.tracker.send(number, item)
                self.sent += 1
                self.next = number + 1
        self.step = batch.step + len(self.made)
        if self.tracker.flush():
            self.journal.confirm(self.step)
        self.todo, self.made = self.todo[1:], None

    def poll(self):
        """Sends what is new, and before it what an error has held up. Returns whether all of it is sent."""
        with self.tries.of(self.tracker) as may_try:
            if may_try and not self.begun:
                self.begin()
            while may_try and self.todo:
                self.send_batch()
            ends = self.new_ends() if may_try else None
            if may_try and ends != self.journal.reached():
                self.last_news = time.monotonic()
                self.todo = [self.journal.add(self.step, ends)]
                self.send_batch()
        return may_try and not self.tries.failed

    # Its end

    def finish(self):
        """Ends the tracker's run, like the run itself. Returns whether that is done: not if an error holds it up."""
        with self.tries.of(self.tracker) as may_try:
            if may_try:
                self.tracker.finish(self.status(), self.run.summary)
        if not may_try or self.tries.failed:
            return False
        self.journal.confirm(self.step)
        self.journal.end(self.ending())
        self.journal.close()
        return True

    def leave(self):
        """Detaches from a run that continues and may be followed again."""
        if self.begun:
            self.tracker.leave()
            self.journal.confirm(self.step)
        self.journal.close()


class Tries:
    """Spaces the tries of what a tracker did not take: a server may be away for a while. Each pause is twice as long as the
    one before; what fails for longer than PATIENCE is thrown.
    """

    def __init__(self, what):
        self.what, self.patience = what, PATIENCE
        self.failed, self.first, self.next = 0, 0.0, 0.0  # how often in a row; since when; not again before

    def hurry(self, patience):
        """Tries at once, and gives up after so many seconds."""
        self.failed, self.next, self.patience = 0, 0.0, patience

    @contextlib.contextmanager
    def of(self, tracker):
        """Gives whether it may be tried now, and notes how that ends."""
        now = time.monotonic()
        if now < self.next:
            yield False
            return
        try:
            yield True
            if self.failed:
                say(f"{self.what}: the tracker answers again")
            self.failed = 0
        except tracker.errors as error:
            self.first = now if self.failed == 0 else self.first
            self.failed += 1
            if now - self.first >= self.patience:
                raise
            pause = min(2**self.failed, LONGEST_PAUSE)
            self.next = time.monotonic() + pause
            advice = f". {tracker.advice}" if tracker.advice and self.failed == 1 else ""
            kind = "warning" if self.failed == 1 else "note"
            say(f"{self.what}: not sent: {first_line(error)}; trying again in {pause} s{advice}", kind)

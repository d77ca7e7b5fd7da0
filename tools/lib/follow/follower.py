# SPDX-License-Identifier: MIT
import time

from ddprun.errors import UserError
from ddprun.rows import read_lines
from follow.items import Items
from follow.journal import FILES, Journal

QUIET_SECONDS = 600  # without a new line, and without a sign of whoever runs it: then the run is taken for dead


class Follower:
    """A run and its counterpart in a tracker."""

    def __init__(self, tracker, run, options):
        self.run, self.options = run, options
        self.tracker = tracker(run, options)
        self.journal = Journal(run, options.to)
        self.items = Items(run.path)
        self.sent = 0
        self.last_news = time.monotonic()

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

    # Sending it

    def begin(self):
        """Opens the tracker's run, and sends what was noted but never arrived."""
        known = self.journal.header
        self.require_same_place(known)
        header = self.tracker.open(known)
        if not known:
            self.journal.begin(header)
        arrived = self.tracker.arrived()
        if arrived is None:
            arrived = self.journal.arrived
        self.step = 0
        for batch in self.journal.from_step(arrived):
            self.send(batch, arrived)

    def require_same_place(self, header):
        for key in ("project", "entity", "uri"):
            asked, known = getattr(self.options, key), header.get(key)
            if asked and known and asked != known:
                raise UserError(
                    f"{self.run.path} belongs to the {key} {known} of {self.options.to}, not {asked}; without --{key} it goes"
                    " on there"
                )

    def send(self, batch, arrived=0):
        items = self.items.of(batch)
        for number, item in enumerate(items, batch.step):
            if number >= arrived:
                self.tracker.send(number, item)
                self.sent += 1
        self.step = batch.step + len(items)
        if self.tracker.flush():
            self.journal.confirm(self.step)

    def poll(self):
        ends = self.new_ends()
        if ends != self.journal.reached():
            self.last_news = time.monotonic()
            self.send(self.journal.add(self.step, ends))

    # Its end

    def finish(self):
        """Ends the tracker's run, like the run itself."""
        self.tracker.finish(self.status(), self.run.summary)
        self.journal.confirm(self.step)
        self.journal.end(self.ending())
        self.journal.close()

    def leave(self):
        """Detaches from a run that continues and may be followed again."""
        self.tracker.leave()
        self.journal.confirm(self.step)
        self.journal.close()

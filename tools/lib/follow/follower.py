# SPDX-License-Identifier: MIT
import collections
import contextlib
import math
import socket
import time

from ddprun.errors import UserError
from ddprun.lock import is_held, owner
from follow.items import Items, lines_of
from follow.journal import Followed, Journal
from follow.messages import first_line, input_ends, say

LONGEST_PAUSE = 60  # seconds between two tries of what a tracker did not take
PATIENCE = 900  # seconds of them, until it is given up
PATIENCE_AT_END = 20  # the same beside a run that has ended; a tracker that is away already has a last try
QUIET_SECONDS = 600  # without a new line, and without a sign of what runs it: then the run is taken for dead


class Follower:
    """A run and its counterpart in a tracker."""

    def __init__(self, tracker, run, options):
        self.run, self.options = run, options
        self.tracker = tracker(run, options)
        self.journal = Journal(run, options.to)
        self.begun = False
        self.items = None  # until it has begun
        self.todo = collections.deque()  # (number, item) of what is noted, and not sent yet
        self.next = 0  # the number of the next batch's first item
        self.sent = 0
        self.last_news = time.monotonic()
        self.tries = Tries(run.path)

    # What there is to be sent

    def is_over(self):
        """Returns whether nothing more will come. Asked before the last lines are read."""
        lock = self.run.path / ".lock"
        held = is_held(lock)
        if held or self.run.summary:
            return not held
        found = owner(lock)
        was_killed = held is False and found is not None and found[1] == socket.gethostname()
        return was_killed or time.monotonic() - self.last_news > QUIET_SECONDS

    def wait(self, stopped):
        """Waits for new lines, or until the event is set."""
        stopped.wait(self.options.poll)

    def new_lines(self):
        return lines_of(self.run.path, self.journal.reached())

    def is_done(self):
        """Returns whether an earlier call has sent everything."""
        _, end = self.new_lines()
        return self.journal.known.get("ended") == self.ending(end)

    def ending(self, end):
        return {"attempt": self.run.attempt, "status": self.status(), "end": end}

    def status(self):
        """Returns the status in summary.json; "killed" if the run could not write one."""
        summary = self.run.summary
        return summary.get("status", "failed") if summary else "killed"

    def report(self, state):
        odd = self.items.odd if self.items else 0
        left_out = f". {odd} lines are not as ddprun writes them, and were left out" if odd else ""
        return f"{self.run.path}: {self.sent} rows sent; {state}{left_out}"

    # Sending it

    def begin(self):
        """Opens the tracker's run, and finds what was noted but never arrived: poll() sends it first."""
        known = self.journal.known
        self.require_same_place(known)
        place = self.tracker.open(known)
        if "id" not in known:
            self.journal.note(**place)
        arrived = self.tracker.arrived()
        self.items = Items(self.run.path)
        sent, left = self.journal.batches_at(arrived)
        for begin, end in [(sent[0].begin, sent[0].end), (sent[0].end, sent[-1].end)] if sent else ():
            self.items.take(lines_of(self.run.path, begin, end)[0])
        for batch in left:
            self.take(batch, lines_of(self.run.path, batch.begin, batch.end)[0])
        self.todo = collections.deque(pair for pair in self.todo if pair[0] >= arrived)
        self.begun = True

    def require_same_place(self, known):
        for key in ("project", "entity", "uri"):
            asked = getattr(self.options, key)
            if asked and known.get(key) and asked != known[key]:
                raise UserError(
                    f"{self.run.path} belongs to the {key} {known[key]} of {self.options.to}, not {asked}; without --{key} it"
                    " continues there"
                )

    def take(self, batch, lines):
        items = self.items.of(lines)
        self.todo.extend(enumerate(items, batch.first))
        self.next = batch.first + len(items)

    def poll(self):
        """Sends what is new, and before it what an error has held up. Returns whether all of it is sent."""
        with self.tries.of(self.tracker) as may_try:
            if may_try:
                if not self.begun:
                    self.begin()
                self.send()
                lines, end = self.new_lines()
                if end != self.journal.reached():
                    self.last_news = time.monotonic()
                    self.take(self.journal.add(self.next, end), lines)
                    self.send()
        return may_try and not self.tries.failed

    def send(self):
        while self.todo:
            self.tracker.send(*self.todo[0])
            self.todo.popleft()
            self.sent += 1
        self.tracker.flush()

    # Its end

    def finish(self):
        """Ends the tracker's run, like the run itself. Returns whether that is done: not if an error holds it up."""
        with self.tries.of(self.tracker) as may_try:
            if may_try:
                self.tracker.finish(self.status(), self.run.summary)
        if not may_try or self.tries.failed:
            return False
        self.journal.note(ended=self.ending(self.journal.reached()))
        self.journal.close()
        return True

    def leave(self):
        """Detaches from a run that continues and may be followed again."""
        if self.begun:
            self.tracker.leave()
        self.journal.close()


class Beside(Follower):
    """Follows a run for the ddprun that trains it, which says when it is over. What cannot be sent stays in the run's folder,
    for the next attempt or the next call.
    """

    def __init__(self, tracker, run, options):
        super().__init__(tracker, run, options)
        self.tries.patience = math.inf
        self.over = False

    def is_over(self):
        return self.over

    def wait(self, stopped):
        if self.over:
            stopped.wait(min(self.options.poll, 0.5))
        elif input_ends(self.options.poll):
            self.over = True
            self.tries.hurry(0 if self.tries.failed else PATIENCE_AT_END)

    @classmethod
    def when_free(cls, tracker, run, options):
        """Waits while the follower of an attempt before still sends what that has left, at most until the run is over."""
        over = False
        while True:
            try:
                return cls(tracker, run, options)
            except Followed:
                if over:
                    raise
                over = input_ends(options.poll)


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

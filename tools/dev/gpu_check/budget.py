"""Distributes the minutes: each table gets its share of what is left, so that a slow one takes nothing from later ones."""

import time


class OutOfTime(Exception):
    """Raised if a request does not fit any more; the text says what was left."""


class Share:
    """The time of one table."""

    def __init__(self, seconds, left, clock=time.monotonic):
        self._clock = clock
        self.end = clock() + seconds  # no round begins that would go beyond it
        self.deadline = clock() + left  # of all: nothing may run on after it

    def rounds(self, wanted):
        """Yields numbers from 0 on. The first always comes; another only if one as long as the longest so far still
        fits.
        """
        longest = 0.0
        for number in range(wanted):
            began = self._clock()
            if number > 0 and began + longest > self.end:
                return
            yield number
            longest = max(longest, self._clock() - began)

    def timeout(self, most):
        """Returns the seconds for one run."""
        left = self.deadline - self._clock()
        if left < 1:
            raise OutOfTime("the time is used up")
        return min(most, left)


class Budget:
    """`weights` has all tables in their order, {name: what it gets of the time, relative to the others}."""

    def __init__(self, deadline, weights, clock=time.monotonic):
        self._deadline = deadline
        self._waiting = dict(weights)
        self._clock = clock

    def left(self):
        return self._deadline - self._clock()

    def share(self, name, least):
        """Returns a share; time that a table does not use goes to later ones. Raises OutOfTime if not even `least`
        seconds are left.
        """
        all_weights = sum(self._waiting.values())
        weight = self._waiting.pop(name)
        left = self.left()
        if left < least:
            raise OutOfTime(f"{max(0, left):.0f} s left, it takes {least:.0f} at least; --minutes allows more")
        return Share(left * weight / all_weights, left, self._clock)

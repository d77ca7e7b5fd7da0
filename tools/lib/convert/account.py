# SPDX-License-Identifier: MIT
"""What a source holds and the written files do not, or not as it was: with what was used, that is all there is."""


class Account:
    def __init__(self):
        self.left_out, self.changed, self.notes = {}, {}, []

    def leave_out(self, what, place):
        self.count(self.left_out, what, place, 1)

    def change(self, what, place, number=1):
        self.count(self.changed, what, place, number)

    def note(self, text):
        """Keeps what is to be told once."""
        if text not in self.notes:
            self.notes.append(text)

    @staticmethod
    def count(found, what, place, number):
        before, first = found.get(what, (0, place))
        found[what] = (before + number, first)

    def parts(self):
        """Returns ["left out: empty lines: 2, the first is a.csv:3", ...]."""
        parts = list(self.notes)
        for title, found in (("left out", self.left_out), ("changed", self.changed)):
            parts += [f"{title}: {what}: {number:,}, the first is {place}" for what, (number, place) in found.items()]
        return parts

    def line(self, text):
        """Returns the text with what is told behind it."""
        return "; ".join([text, *self.parts()])

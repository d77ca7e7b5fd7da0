# SPDX-License-Identifier: MIT
from ddprun.terminal import printable


class UserError(Exception):
    """The request cannot be fulfilled; the text says where, what was found, and what to do."""

    def __init__(self, text):
        super().__init__(printable(text))


class Failed(Exception):
    """A training failed. `code`: its exit code; `lines`: the last that it wrote; `run`: the run it left, or None."""

    def __init__(self, code, lines, run):
        self.code, self.lines, self.run = code, lines, run
        super().__init__(printable("\n".join([f"ddprun ended with {self.meaning()}", *lines])))

    def __reduce__(self):  # so that other processes can raise it again: those of Ray, of multiprocessing
        return type(self), (self.code, self.lines, self.run)

    def meaning(self):
        known = {2: "wrong usage, experiment or data", 75: "it has saved, and can be resumed"}
        return f"exit code {self.code}" + (f": {known[self.code]}" if self.code in known else "")


class Interrupted(KeyboardInterrupt):
    """A training was stopped by Ctrl-C, or by a notebook's stop button. `run`: the run it left, or None."""

    def __init__(self, code, run):
        self.code, self.run = code, run
        if run is None:
            super().__init__("stopped before there was a run")
        else:
            path = printable(run.path)
            super().__init__(f'stopped: ddprun.run("{path}") reads what is there, `ddprun resume {path}` continues it')

    def __reduce__(self):
        return type(self), (self.code, self.run)

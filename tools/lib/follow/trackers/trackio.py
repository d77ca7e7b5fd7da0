# SPDX-License-Identifier: MIT
"""Trackio: a database in TRACKIO_DIR, or a Space that TRACKIO_SPACE_ID names. The rows of the database can be counted."""

import contextlib
import os
import sys

import trackio
from trackio.sqlite_storage import SQLiteStorage

from follow.trackers.base import Base


class Tracker(Base):
    one_by_one = True
    errors = (ValueError, OSError)

    def __init__(self, run, options):
        super().__init__(run, options)
        self.local = not (os.environ.get("TRACKIO_SPACE_ID") or os.environ.get("TRACKIO_SERVER_URL"))

    def open(self, header):
        self.header = header or {"id": self.name, "project": self.project}
        with contextlib.redirect_stdout(sys.stderr):  # it greets
            self.sink = trackio.init(
                project=self.header["project"], name=self.header["id"], group=self.options.group, config=self.run.config,
                resume="allow", embed=False, auto_log_gpu=False, auto_log_cpu=False)  # fmt: skip
        return self.header

    def arrived(self):
        """Counts the rows, but not those of finish(), one for each time that the run has ended."""
        if not self.local:
            return None
        return sum("status" not in row for row in SQLiteStorage.get_logs(self.header["project"], self.header["id"]))

    def send(self, number, item):
        row = {name: value for name, value in item.place.items() if name != "step"} | item.numbers
        row |= {name: trackio.Image(str(file)) for name, file in item.pictures()}
        for name, (classes, counts) in item.confusions.items():
            row |= {f"{name}/{truth}/{guess}": count for truth, counted in zip(classes, counts) for guess, count in zip(classes, counted)}
        self.sink.log(row, step=item.step)

    def flush(self):
        """A Space gets what waits in the client's queue, which ends with the run."""
        return self.local

    def finish(self, status, summary):
        with contextlib.redirect_stdout(sys.stderr):
            self.sink.log({"status": status}, step=int(summary.get("steps", 0)))
            self.sink.finish()

    def leave(self):
        with contextlib.redirect_stdout(sys.stderr):
            self.sink.finish()

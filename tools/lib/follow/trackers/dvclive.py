# SPDX-License-Identifier: MIT
"""DVCLive: tables of metrics in <run>/dvclive, for `dvc plots`. They are appended to, so what they hold is not sent again."""

import csv
import io
import os
import shutil

from dvclive import Live

from ddprun.files_below import open_below
from follow.trackers.base import Base, has_pillow


class Tracker(Base):

    def open(self, header):
        folder = self.own_folder()
        self.sink = Live(dir=os.path.relpath(folder), resume=True, save_dvc_exp=False, dvcyaml=None, report=None)
        self.sink.log_params(self.run.config)
        self.images = has_pillow()
        self.seen = seen_rows(folder / "plots/metrics")
        return header or {"id": str(folder)}

    def send(self, number, item):
        self.sink.step = item.step
        numbers = item.numbers | ({"epoch": item.epoch} if item.epoch is not None and item.numbers else {})
        for name, value in numbers.items():
            row = (name, str(item.step), str(value))
            if row not in self.seen:
                self.seen.add(row)
                self.sink.log_metric(name, value)
        for name, file in item.pictures() if self.images else ():
            self.sink.log_image(f"{name}{file.suffix}", str(file))

    def flush(self):
        self.sink.make_summary()
        return True

    def finish(self, status, summary):
        self.sink.log_metric("status", status, plot=False)
        for file in self.files():
            shutil.copy(file, self.own_folder())
        self.sink.end()

    def leave(self):
        self.sink.end()


def seen_rows(folder):
    """Returns (metric, step, value) of every row that is there."""
    rows = set()
    for file in folder.rglob("*.tsv"):
        name = file.relative_to(folder).with_suffix("").as_posix()
        with io.TextIOWrapper(open_below(file.parent, file.name), newline="") as lines:
            rows |= {(name, *line[:2]) for line in csv.reader(lines, delimiter="\t")}
    return rows

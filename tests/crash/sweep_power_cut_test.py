# SPDX-License-Identifier: MIT
"""A power cut at each moment of a sweep: the study is whole, knows every trial's folder, and has of a trial that is done the value that
its rows tell; the same command continues it to the end of the sweep that nobody disturbed."""

import pathlib
import shutil
import sqlite3
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tools")]

from disk import File, write_out  # noqa: E402
from recorded import NIGHTLY, TINY, RecordedTest  # noqa: E402
from run_history import Lost, objects  # noqa: E402
from sweep_test_case import SweepTest  # noqa: E402

from command import main  # noqa: E402

GRID = """\
experiment: experiments/digits.yaml
method: grid
metric: {name: val/loss, goal: minimize}
parameters: {optimizer.lr: {values: [0.1, 0.01]}}
"""
WHOLE = ("best.yaml", "report.html", "sweep.yaml", "experiment.yaml", "sweep.json")


class SweepHistory:
    """Of the sweep in the folder `sweep` of the disk."""

    def __init__(self, folder):
        self.scratch = folder
        self.put = {name: set() for name in WHOLE}
        self.known = {}  # {database and journal: its trials}
        self.ended = None

    def observe(self, operation, disk):
        name = operation.other.removeprefix("sweep/")
        if operation.call == "rename" and name in WHOLE and isinstance(node := disk.find(operation.other), File):
            self.put[name].add(node.now)

    def end(self, disk):
        self.ended = self.trials(disk.as_seen())

    def check(self, state):
        for name in WHOLE:
            content = state.get(f"sweep/{name}")
            if content is not None and content not in self.put[name]:
                raise Lost(f"{name} is torn: {content[:60]!r}")
        trials = self.trials(state)
        if self.ended is not None and trials != self.ended:
            raise Lost(f"the sweep has ended, but the study has {trials}")
        folders = [path for path in state if path.startswith("sweep/trial_") and path.count("/") == 1]
        if len(folders) > len(trials):
            raise Lost(f"the study has no such trial: {folders}")
        for number, _, value in (one for one in trials if one[1] == "COMPLETE"):
            rows = state.get(f"sweep/trial_{number:04}/metrics.jsonl", b"")
            if value not in [row.get("loss") for _, row in objects(rows) if row["split"] == "val"]:
                raise Lost(f"the study has {value} of trial {number}, but its rows have not")

    def trials(self, state):
        """[(number, state, value)] as SQLite restores them."""
        files = {name: state[f"sweep/{name}"] for name in ("study.db", "study.db-journal") if f"sweep/{name}" in state}
        key = tuple(files.values())
        if key not in self.known:
            self.known[key] = self.read(files)
        return self.known[key]

    def read(self, files):
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        write_out(files, self.scratch)
        database = sqlite3.connect(self.scratch / "study.db")
        try:
            if (found := database.execute("pragma integrity_check").fetchone()[0]) != "ok":
                raise Lost(f"the study is damaged: {found}")
            if not database.execute("select 1 from sqlite_master where name = 'trial_values'").fetchone():
                return []
            rows = database.execute("select number, state, value from trials natural left join trial_values")
            return sorted(rows.fetchall())
        except sqlite3.DatabaseError as error:
            raise Lost(f"the study is damaged: {error}") from None
        finally:
            database.close()


class SweepPowerCut(RecordedTest, SweepTest):
    def setUp(self):
        super().setUp()
        self.out = self.disk / "sweep"
        self.words = [self.write(GRID), *TINY[1:], "predictions=null", "launch.workers=1"]

    def test_a_sweep_of_two_trials(self):
        self.swept(*self.words, env=self.recording())
        cuts = self.check_all(SweepHistory(self.folder / "scratch"))
        end = self.values()
        for cut in self.sample(cuts, 20 if NIGHTLY else 1):
            with self.subTest(str(cut)):
                self.out = self.restore(cut) / "sweep"
                self.swept(*self.words)
                self.assertEqual(self.values(), end)

    def values(self):
        return [(trial.number, trial.state, trial.params, trial.value) for trial in self.trials()]


if __name__ == "__main__":
    main()

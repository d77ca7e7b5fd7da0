# SPDX-License-Identifier: MIT
"""The reader of run folders, tools/runs, on files as they are found: growing, torn, missing, of several attempts."""

import fcntl
import json
import pathlib
import shutil
import socket
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

from runs.config import flat, read_config  # noqa: E402
from runs.line_file import read_lines  # noqa: E402
from runs.run_folder import RunFolder  # noqa: E402
from runs.standing_rows import standing_rows  # noqa: E402
from runs.user_error import UserError  # noqa: E402


class FolderTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-runs-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        file = self.folder / name
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file


class LineFile(FolderTest):
    def test_a_file_that_is_not_there_is_empty(self):
        self.assertEqual(read_lines(self.folder / "metrics.jsonl", 7), ([], 7))

    def test_a_line_that_is_being_written_waits_for_its_end(self):
        file = self.write("metrics.jsonl", '{"step": 1}\n{"st')
        self.assertEqual(read_lines(file), ([{"step": 1}], 12))
        self.write("metrics.jsonl", '{"step": 1}\n{"step": 2}\n')
        self.assertEqual(read_lines(file, 12), ([{"step": 2}], 24))
        self.assertEqual(read_lines(file, 24), ([], 24))

    def test_what_a_killed_run_left_torn_is_skipped(self):
        for torn in ('{"step": 1, "lo\n', "\n", "[1]\n", "\0\0\0\n", b'{"a": "\xff"}\n'):
            data = torn.encode() if isinstance(torn, str) else torn
            file = self.write("metrics.jsonl", data + b'{"step": 2}\n')
            self.assertEqual(read_lines(file), ([{"step": 2}], len(data) + 12))

    def test_only_what_is_before_the_end_is_read(self):
        file = self.write("metrics.jsonl", '{"step": 1}\n{"step": 2}\n{"step": 3}\n')
        self.assertEqual(read_lines(file, 12, 24), ([{"step": 2}], 24))


def row(attempt, step, split="train", **values):
    return {"attempt": attempt, "split": split, "step": step, **values}


class StandingRows(unittest.TestCase):
    def test_rows_beyond_the_step_where_a_later_attempt_begins_are_void(self):
        rows = [row(0, 2), row(0, 4), row(0, 6), row(0, 6, "val"), row(0, 8), row(1, 6, loss=1), row(1, 10)]
        self.assertEqual(standing_rows(rows), [row(0, 2), row(0, 4), row(0, 6, "val"), row(1, 6, loss=1), row(1, 10)])

    def test_another_split_of_the_step_where_it_begins_stands(self):
        rows = [row(0, 4), row(0, 4, "val"), row(1, 4, "test")]
        self.assertEqual(standing_rows(rows), rows)

    def test_of_equal_steps_the_last_line_counts(self):
        rows = [row(0, 2, loss=1), row(0, 2, loss=2), row(0, 2, "val", loss=3)]
        self.assertEqual(standing_rows(rows), rows[1:])

    def test_three_attempts(self):
        rows = [row(0, 2), row(0, 4), row(1, 4), row(1, 6), row(2, 4), row(2, 6)]
        self.assertEqual(standing_rows(rows), [row(0, 2), row(2, 4), row(2, 6)])


class Config(FolderTest):
    def test_reads_what_ddprun_writes(self):
        file = self.write(
            "config.yaml",
            """\
name: digits           # /a b/digits.yaml:8:7
seed: 42
optimizer:             # x.yaml:1:1
  lr: 1e-3             # command line: optimizer.lr=1e-3
  momentum: 0.9
  nesterov: false
  groups: []
  other: {}
  nothing: null
"odd: key": "a # \\"b\\" \\\\ \\x09 ü"
run:
  dir: out/C#/x:y
  "1": -5
objective:
  metrics:
    - accuracy
    - "5"
    -
      - -1
      - deep
loggers:
  - plugin: console    # x
    every: 5st
  - plugin: csv
""",
        )
        self.assertEqual(
            read_config(file),
            {
                "name": "digits",
                "seed": 42,
                "optimizer": {
                    "lr": 0.001,
                    "momentum": 0.9,
                    "nesterov": False,
                    "groups": [],
                    "other": {},
                    "nothing": None,
                },
                "odd: key": 'a # "b" \\ \t ü',
                "run": {"dir": "out/C#/x:y", "1": -5},
                "objective": {"metrics": ["accuracy", "5", [-1, "deep"]]},
                "loggers": [{"plugin": "console", "every": "5st"}, {"plugin": "csv"}],
            },
        )

    def test_what_ddprun_does_not_write_is_refused_with_its_line(self):
        for line, text in (
            ("a: {b: 1}", "a: {b: 1}"),
            ("a", "a"),
            ("a: *b", "a: *b"),
            ('a: "b', 'a: "b'),
            ("- x", "- x"),
            ("  b: 1", "b: 1"),
        ):
            file = self.write("config.yaml", f"seed: 1\n{line}\n")
            with self.assertRaises(UserError) as caught:
                read_config(file)
            self.assertIn(f"config.yaml:2: `{text}`", str(caught.exception))

    def test_flat_names_are_those_of_overrides(self):
        config = {"a": {"b": 1, "c": []}, "d": ["x", {"e": None}]}
        self.assertEqual(flat(config), {"a.b": 1, "a.c": [], "d.0": "x", "d.1.e": None})


class Folder(FolderTest):
    def make(self):
        self.write("config.yaml", "name: digits\n")
        return RunFolder(self.folder)

    def test_what_is_no_run_is_refused(self):
        (self.folder / "digits").mkdir()
        self.write("digits/config.yaml", "name: digits\n")
        for path, words in (("nowhere", "no such run"), ("", f"did you mean {self.folder}/digits?")):
            with self.assertRaises(UserError) as caught:
                RunFolder(self.folder / path)
            self.assertIn(words, str(caught.exception))

    def test_a_summary_counts_only_for_its_own_attempt(self):
        run = self.make()
        self.assertEqual((run.summary(), run.has_summary()), ({}, False))
        self.write("summary.json", json.dumps({"status": "preempted", "attempt": 0}))
        self.assertTrue(run.has_summary())  # whatever .attempts says: the folder may be a copy
        self.write(".attempts", "2\n")
        self.assertFalse(run.has_summary())
        self.write("summary.json", json.dumps({"status": "completed", "attempt": 1}))
        self.assertTrue(run.has_summary())

    def test_a_lock_that_is_held_is_seen_and_not_disturbed(self):
        run = self.make()
        self.assertIsNone(run.is_held())
        self.assertFalse(run.was_started_here())
        with open(self.write(".lock", f"process 1 on {socket.gethostname()}")) as file:
            self.assertFalse(run.is_held())
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.assertTrue(run.is_held())
        self.assertFalse(run.is_held())
        self.assertTrue(run.was_started_here())
        self.write(".lock", "process 1 on another.machine")
        self.assertFalse(run.was_started_here())


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""tools/follow and a tracker that is away for a while, or only queues, and of a run that somebody else has made: with a tracker of
the test's own.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import types
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "tools/lib"), str(HERE.parents[1] / "sdk/python")]

from ddprun import UserError, run  # noqa: E402
from follow import follower  # noqa: E402
from follow.trackers import Base  # noqa: E402
from tooling.rows import read_lines, standing_rows  # noqa: E402

os.environ["DDPRUN_PROGRAM"] = os.environ["DDPRUN"]

OPTIONS = types.SimpleNamespace(to="away", project=None, name=None, tags=None, entity=None, group=None, offline=False, uri=None, model=False)


class Away(Base):
    """Takes every item, but for so many times; what it has outlives it, as on a server."""

    has = []  # (number, item); each test has its own

    def __init__(self, made, options):
        super().__init__(made, options)
        self.failures = 0

    def open(self, known):
        self.noted_before = (self.run.path / "away/follow.jsonl").read_text()
        return {"id": "x"}

    def arrived(self):
        return self.has[-1][0] + 1 if self.has else 0

    def send(self, number, item):
        self.fail()
        self.has.append((number, item))

    def finish(self, status, summary):
        self.fail()

    def fail(self):
        if self.failures:
            self.failures -= 1
            raise OSError("no route to host")


class Rows(unittest.TestCase):
    def test_lines_are_read_as_far_as_they_are_whole(self):
        one, two, three = (f'{{"step": {step}}}\n'.encode() for step in (1, 2, 3))
        rows = [
            (None, 7, None, [], 7),  # no file yet
            (one + b'{"st', 0, None, [1], 12),  # what is being written
            (one + two, 12, None, [2], 24), (one + two, 24, None, [], 24), (one + two + three, 12, 24, [2], 24),
            *((torn + two, 0, None, [2], len(torn) + 12)  # what a killed run has left
              for torn in (b'{"step": 1, "lo\n', b"\n", b"[1]\n", b"\0\0\0\n", b'{"a": "\xff"}\n')),
        ]  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "metrics.jsonl"
            for content, begin, end, steps, reached in rows:
                if content is not None:
                    file.write_bytes(content)
                self.assertEqual(read_lines(file, begin, end), ([{"step": step} for step in steps], reached), content)

    def test_those_that_a_later_attempt_replaces_do_not_count(self):
        for rows, standing in (
            ([(0, 2), (0, 4), (0, 6), (0, 6, "val"), (0, 8), (1, 6), (1, 10)], [(0, 2), (0, 4), (0, 6, "val"), (1, 6), (1, 10)]),
            ([(0, 4), (0, 4, "val"), (1, 4, "test")], [(0, 4), (0, 4, "val"), (1, 4, "test")]),
            ([(0, 2), (0, 4), (1, 4), (1, 6), (2, 4), (2, 6)], [(0, 2), (2, 4), (2, 6)]),
        ):
            made = [dict(zip(("attempt", "step", "split"), (*row, "train"))) for row in rows]
            self.assertEqual(standing_rows(made), [made[rows.index(row)] for row in standing])
        twice = [{"step": 2, "loss": 1}, {"step": 2, "loss": 2}, {"step": 2, "split": "val"}]
        self.assertEqual(standing_rows(twice), twice[1:], "of equal steps the last line counts")


class Following(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-follow-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "config.yaml").write_text("name: made\n")
        self.now = 0.0
        Away.has = []
        clock = unittest.mock.patch.object(follower, "time", types.SimpleNamespace(monotonic=lambda: self.now))
        clock.start()
        self.addCleanup(clock.stop)
        said = unittest.mock.patch.object(sys, "stderr")
        self.stderr = said.start()
        self.addCleanup(said.stop)

    def append(self, name, *lines):
        with open(self.folder / f"{name}.jsonl", "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def rows(self, *steps, attempt=0):
        place = {"attempt": attempt, "split": "train"}
        self.append("metrics", *({"time": step, **place, "step": step, "loss": 1} for step in steps))

    def follow(self):
        made = follower.Follower(Away, run(self.folder), OPTIONS)
        self.addCleanup(made.journal.close)
        made.begin()
        return made

    def follow_again(self, made):
        """Another follower, after that one was killed."""
        made.journal.close()
        again = self.follow()
        again.poll()
        return again

    def steps(self):
        return [item.step for _, item in Away.has]

    def test_what_a_tracker_does_not_take_is_tried_again_later_and_later_and_sent_once(self):
        made = self.follow()
        self.rows(1, 2, 3)
        self.assertTrue(made.poll())
        self.rows(4, 5, 6)
        made.tracker.failures, tries = 5, []
        while not made.poll():
            tries.append(made.tries.failed)
            self.now += 1
            if len(tries) == 3:
                self.rows(7)
        self.assertEqual(tries, [1] * 2 + [2] * 4 + [3] * 8 + [4] * 16 + [5] * 32)
        self.assertEqual(self.steps(), [1, 2, 3, 4, 5, 6, 7])
        self.assertEqual([number for number, _ in Away.has], list(range(7)))
        made.tracker.failures = 1
        self.assertFalse(made.finish())
        self.now += 2
        self.assertTrue(made.finish())

    def test_a_tracker_that_stays_away_is_given_up_and_the_next_call_continues(self):
        made = self.follow()
        self.rows(1)
        made.poll()
        self.rows(2, 3)
        made.tracker.failures = 1000
        with self.assertRaisesRegex(OSError, "no route"):
            while self.now < 10 * follower.PATIENCE:
                made.poll()
                self.now += 1
        self.assertGreater(self.now, follower.PATIENCE)
        self.assertEqual(self.steps(), [1])
        self.follow_again(made)
        self.assertEqual(self.steps(), [1, 2, 3])

    def test_what_marks_the_run_there_is_noted_before_there_is_one(self):
        made = self.follow()
        word = made.journal.known["word"]
        self.assertEqual(json.loads(made.tracker.noted_before), {"word": word})
        self.assertEqual(self.follow_again(made).journal.known["word"], word)

    def test_rows_that_a_resumed_attempt_writes_again_are_not_sent_again(self):
        made = self.follow()
        self.rows(1, 2, 3)
        made.poll()
        self.rows(2, 3, 4, attempt=1)
        made.poll()
        self.assertEqual(self.steps(), [1, 2, 3, 4])
        self.rows(4, attempt=1)
        self.append("metrics", {"step": 3, "split": "val", "loss": 1})
        self.follow_again(made)
        self.assertEqual([(item.step, *item.numbers) for _, item in Away.has[4:]], [(3, "val/loss")])

    def test_what_a_resumption_takes_back_is_the_same_after_a_kill(self):
        """(steps, attempt) of the rows between two looks; the last ones come while nobody follows."""
        for looks, steps in (([([1, 2, 3, 4], 0), ([2], 1), None, ([3], 1), ([4], 1)], [1, 2, 3, 4]),  # those that count, of what it begins with
                             ([None, ([1], 0), ([2, 3], 0), ([2], 1), ([3, 4], 1), ([5], 1)], [1, 2, 3, 4, 5])):  # fmt: skip
            with self.subTest(looks):
                self.doCleanups()
                self.setUp()
                made = None
                for look in looks:
                    if look is None:
                        made = self.follow()
                    else:
                        self.rows(*look[0], attempt=look[1])
                    if made and look != looks[-1]:
                        made.poll()
                self.follow_again(made)
                self.assertEqual((self.steps(), [number for number, _ in Away.has]), (steps, list(range(len(steps)))))

    def test_a_tracker_that_is_away_at_the_start_is_tried_again(self):
        made = follower.Follower(Away, run(self.folder), OPTIONS)
        self.addCleanup(made.journal.close)
        self.rows(1)
        with unittest.mock.patch.object(Away, "open", side_effect=OSError("no route to host")):
            self.assertFalse(made.poll())
        made.tries.hurry(1)
        self.assertTrue(made.poll())
        self.assertEqual(self.steps(), [1])

    def test_what_only_waits_in_a_clients_queue_is_sent_again_after_a_kill(self):
        made = self.follow()
        for step in range(6):
            self.rows(step)
            made.poll()
        del Away.has[2:]
        self.follow_again(made)
        self.assertEqual((self.steps(), [number for number, _ in Away.has]), (list(range(6)), list(range(6))))

    def test_events_are_sent_as_a_table_of_the_newest(self):
        with unittest.mock.patch("follow.items.MOST_EVENTS", 3):
            made = self.follow()
            for step in range(6):
                self.append("events", {"time": step, "step": step, "kind": "checkpoint", "text": str(step)})
                made.poll()
            tables = [[row[-1] for row in item.tables["events"].rows] for _, item in Away.has]
            self.assertEqual(tables, [["0"], ["0", "1"], ["0", "1", "2"], ["1", "2", "3"], ["2", "3", "4"], ["3", "4", "5"]])
            self.append("events", {"time": 9, "step": 9, "kind": "end", "text": "9"})
            self.follow_again(made)
            self.assertEqual([row[-1] for row in Away.has[-1][1].tables["events"].rows], ["4", "5", "9"])

    def test_lines_that_ddprun_did_not_write_are_left_out_and_counted(self):
        made = self.follow()
        self.append("metrics", {"step": 1, "split": "train", "loss": 1}, {"step": 2, "loss": 1})
        self.append("tables", {"kind": "confusion", "step": 1}, {"kind": "histograms", "step": 2, "split": "x", "histograms": 3})
        made.poll()
        self.assertEqual((self.steps(), made.items.odd), ([1], 3))

    def test_neither_links_nor_what_is_no_file_is_uploaded_or_written_to(self):
        private = self.folder.parent / f"{self.folder.name}.private"
        private.write_text("secret")
        self.addCleanup(private.unlink)
        (self.folder / "summary.json").write_text('{"status": "completed"}')
        (self.folder / "report.html").symlink_to(private)
        made = self.follow()
        self.assertEqual([file.name for file in made.tracker.files()], ["config.yaml", "summary.json"])
        made.journal.close()
        (self.folder / "away/follow.jsonl").unlink()
        (self.folder / "away/follow.jsonl").symlink_to(private)
        with self.assertRaises(UserError):
            self.follow()
        shutil.rmtree(self.folder / "away")
        (self.folder / "away").symlink_to(self.folder.parent)
        with self.assertRaisesRegex(UserError, "is a link"):
            self.follow()
        self.assertEqual(private.read_text(), "secret")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""tools/follow, killed, stopped, or following what is killed: every row is in W&B once, in one run."""

import os
import signal
import unittest
import unittest.mock

from follow_test_case import WORDS, FollowTest, metrics_line

from command import all_rows
from follow.journal import Journal
from tooling.rows import standing_rows
from wandb_runs import WandbRun


class Killed(FollowTest):
    LINES = [metrics_line(step, loss=1 / (step + 1)) for step in range(4000)]

    def written(self):
        """Bytes in the newest file of W&B; not by the link latest-run, which changes meanwhile."""
        files = [file.stat() for file in self.run_dir.glob("wandb/*run-*/*.wandb")]
        return max(files, key=lambda file: file.st_mtime).st_size if files else 0

    def test_the_follower_loses_nothing_and_sends_nothing_twice(self):
        self.fabricate(status=None)
        expected = 0
        moments = [lambda: (self.run_dir / "wandb/follow.jsonl").exists()]
        moments += [lambda size=size: self.written() > size for size in (0, 20_000, 90_000, 250_000)]
        for number, condition in enumerate(moments):
            self.append("metrics", self.LINES[expected : expected + 700])
            expected += 700
            follower = self.follow(self.run_dir, "--offline")
            self.wait_until(condition, f"the moment of death {number}", follower)
            os.kill(follower.pid, signal.SIGKILL)
            follower.wait()
            self.wait_until(lambda: len(self.processes()) == 0, "the end of what it started")
        with open(self.run_dir / "wandb/follow.jsonl", "a") as file:
            file.write('{"first": 12')  # as if it had died in the middle of a note
        self.append("metrics", self.LINES[expected:])
        found = self.sent()
        self.assertGreater(len(found.folders), 2)  # one that was killed at once may have left none
        self.assertEqual(found.steps(), list(range(len(self.LINES))))
        self.assert_rows_arrived(found, self.LINES)
        self.assertEqual(len(found.ids), 1)


class PowerCut(FollowTest):
    def test_the_journal_is_found_again(self):
        self.fabricate()
        synced = []
        name = lambda descriptor: synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))  # noqa: E731
        with unittest.mock.patch("os.fsync", name):
            journal = Journal(unittest.mock.Mock(path=self.run_dir), "wandb")
            self.addCleanup(journal.close)
            journal.note(id="a")
        self.assertEqual(synced, ["run", "wandb", "follow.jsonl", "follow.jsonl"])


def wait_for_note(test, running):
    """Of a row that was sent."""
    notes = test.run_dir / "wandb/follow.jsonl"
    test.wait_until(lambda: notes.exists() and '"first"' in notes.read_text(), "the first row", running)


class Live(FollowTest):
    def test_a_run_that_is_killed_and_resumed_is_one_run_of_wandb(self):
        first = self.start_held(14, *WORDS, "run.dir=run")
        self.run_dir = self.folder / "run"
        self.wait_for_step(first, self.run_dir, 14)
        follower = self.follow(self.run_dir, "--offline")
        wait_for_note(self, follower)
        first.send(signal.SIGKILL)
        first.wait()
        self.assertEqual(follower.wait(), 0, follower.text())
        self.assertIn("the run has ended: killed", follower.err())
        found = WandbRun(self.run_dir)
        self.assertEqual(max(row["step"] for row in found.history), 14)
        self.assertEqual((found.exits, found.summary["status"]), ([1], "killed"))
        second = self.start_held(16, "resume", "run", attempt=1)
        follower = self.follow(self.run_dir, "--offline")
        second.gate.open()
        self.assertEqual(second.wait(), 0, second.text())
        self.assertEqual(follower.wait(), 0, follower.text())
        self.assertIn("the run has ended: completed", follower.err())
        found = WandbRun(self.run_dir)
        self.assertEqual(found.steps(), list(range(len(found.history))))
        self.assertEqual(len(found.ids), 1)
        # What was sent before it was void cannot be taken back, and is not sent again.
        first_of = {}
        for row in all_rows(self.run_dir, measured=True):
            first_of.setdefault((row["split"], row["step"]), row)
        self.assert_rows_arrived(found, list(first_of.values()))
        self.assertEqual((found.exits, found.summary["status"]), ([1, 0], "completed"))
        standing = standing_rows(all_rows(self.run_dir, measured=True))
        last = {(f"{row['split']}/loss", row["step"]): row["loss"] for row in standing if "loss" in row}
        arrived = {(name, row["step"]): value for row in found.history for name, value in row.items() if name.endswith("/loss")}
        self.assertEqual(arrived, last)

    def test_ctrl_c_ends_it_and_a_later_call_continues(self):
        self.fabricate(status=None, metrics=[metrics_line(1, loss=1)])
        follower = self.follow(self.run_dir, "--offline")
        wait_for_note(self, follower)
        refused = self.followed(self.run_dir, "--offline", code=2)
        self.assertIn("is followed already", refused.err())
        follower.send(signal.SIGINT)
        self.assertEqual(follower.wait(), 0, follower.text())
        self.assertIn("1 rows sent; the run continues", follower.err())
        self.append("metrics", [metrics_line(2, loss=2)])
        self.assert_rows_arrived(self.sent(), [metrics_line(1, loss=1), metrics_line(2, loss=2)])


if __name__ == "__main__":
    unittest.main()

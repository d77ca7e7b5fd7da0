# SPDX-License-Identifier: MIT
"""What tools/follow does with every tracker, by its real client and without a network: what the client has kept is what the run has
written."""

import math
import multiprocessing
import os
import pathlib
import runpy
import signal
import sys
import tempfile

from follow_test_case import TOOL, metrics_line

from command import Running

PICTURE = (  # 1 by 1, grey
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    "3a7e9b550000000a49444154789c63680000008200812dd2a3a80000000049454e44ae426082"
)
PLACE = {"attempt": 0, "split": "val", "epoch": 1, "step": 5, "time": 1700000005}
TABLES = [
    {"kind": "confusion", **PLACE, "classes": ["cat", "dog"], "counts": [[3, 1], [0, 2]]},
    {"kind": "predictions", **PLACE, "classes": ["cat", "dog"],
     "rows": [{"id": 7, "truth": 0, "guess": 1, "scores": [0.25, 0.75], "image": "images/7.png"}]},
    {"kind": "histograms", **PLACE,
     "histograms": [{"name": "weights/a.weight", "nonfinite": 0, "edges": [0, 1, 2], "counts": [3, 1]}]},
]  # fmt: skip


class ForkedFollower(Running):
    """tools/follow in a fork of this process, which has imported the client: that takes longer than all that it does."""

    def __init__(self, words, folder, environment):
        outputs = pathlib.Path(tempfile.mkdtemp(prefix=".fork-", dir=folder))
        self.out_file, self.err_file = outputs / "out", outputs / "err"
        self.process = multiprocessing.get_context("fork").Process(target=self.run, args=(words, folder, environment))
        self.process.start()
        self.pid = self.process.pid

    def run(self, words, folder, environment):
        for descriptor, file in ((1, self.out_file), (2, self.err_file)):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), descriptor)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None  # it is the parent's
        sys.argv = [str(TOOL), *map(str, words)]
        runpy.run_path(sys.argv[0], run_name="__main__")

    def ended(self):
        return self.process.exitcode is not None

    def wait(self, seconds=120):
        self.process.join(seconds)
        return self.process.exitcode


class TrackerTest:
    """The claims, of every tracker. What it kept is read by numbers(): a list of (name, step, value), settings(), status()
    and pictures(), how many."""

    arguments = ()
    client_is_imported = False  # in a way that survives a fork

    def start_follower(self):
        return self.follow(self.run_dir, *self.arguments, env=self.places())

    def start_next(self):
        """A follower after the first: a fork, where that is possible."""
        if not self.client_is_imported:
            return self.start_follower()
        words = self.words(self.run_dir, *self.arguments)
        follower = ForkedFollower(words, self.folder, self.environment(self.places()))
        self.addCleanup(follower.process.kill)
        return follower

    def places(self):
        return {}

    def expected(self, lines):
        return sorted((f"{line['split']}/loss", line["step"], line["loss"]) for line in lines)

    def losses(self):
        return sorted((name, step, value) for name, step, value in self.numbers() if name.endswith("/loss"))

    def test_a_whole_run_arrives(self):
        lines = [metrics_line(step, split=split, loss=1 / (step + 1)) for step in range(20) for split in ("train", "val")]
        bad = metrics_line(21, loss=None, nonfinite=["loss"])
        self.fabricate(metrics=[*lines, bad], tables=TABLES)
        (self.run_dir / "images").mkdir()
        (self.run_dir / "images/7.png").write_bytes(bytes.fromhex(PICTURE))
        self.to_end(self.start_follower())
        self.assertEqual([one for one in self.losses() if math.isfinite(one[2]) and one[1] != 21], self.expected(lines))
        self.assertTrue(all(math.isnan(value) for _, step, value in self.losses() if step == 21))
        self.assertEqual((self.settings(), self.status(), self.pictures()), ("1", "completed", 1))
        self.assertIn("there is nothing new", self.to_end(self.start_next()).err())

    def test_a_follower_that_is_killed_sends_every_row_once(self):
        lines = [metrics_line(step, loss=1 / (step + 1)) for step in range(3000)]
        self.fabricate(status=None)
        for begin in (0, 1000, 2000):
            self.append("metrics", lines[begin : begin + 1000])
            notes = self.run_dir / self.tracker / "follow.jsonl"
            known = notes.read_text().count('"end"') if notes.exists() else 0
            follower = self.start_next()
            self.wait_until(lambda: notes.exists() and notes.read_text().count('"end"') > known, "a batch", follower)
            os.kill(follower.pid, signal.SIGKILL)
            follower.wait()
            self.wait_until(lambda: len(self.processes()) == 0, "the end of what it started")
        self.fabricate("failed")
        self.to_end(self.start_next())
        self.assertEqual(self.losses(), self.expected(lines))
        self.assertEqual(self.status(), "failed")

# SPDX-License-Identifier: MIT
"""Each call to the disk of a run fails once, or for ever where the disk is full: the run ends, says what failed, and leaves its
checkpoints whole; or it did without, and says so. A call that was interrupted, or wrote the half, or took its time, is no failure at all."""

import json
import pathlib
import random
import shutil
import unittest

from disk import read_in, read_record
from recorded import NIGHTLY, SEED, TINY, RecordedTest
from run_history import is_whole, newest_whole, steps

from command import main, results

FAILURES = {"write": ("EIO", "ENOSPC", "EINTR", "short", "slow"), "sync": ("EIO", "EINTR", "slow"), "rename": ("EIO",), "create": ("EIO", "ENOSPC"),
            "mkdir": ("EIO",), "symlink": ("EIO",), "unlink": ("EIO",)}
HARMLESS = ("EINTR", "short", "slow")
TEXTS = {"EIO": "Input/output error", "ENOSPC": "No space left on device"}
WORDS = [*TINY, "launch.workers=1", "launch.max_restarts=0"]


class FailingCalls(RecordedTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.disk / "run"

    def run_with(self, fail):
        """The run, ended; its record is the disk's alone."""
        for left in (self.log, self.folder / "record.count"):
            left.unlink(missing_ok=True)
        shutil.rmtree(self.disk)
        self.disk.mkdir()
        running = self.start(*WORDS, f"run.dir={self.run_folder}", env=self.recording(fail))
        running.wait()
        self.assert_nothing_left()
        return running

    def test_each_call(self):
        undisturbed = self.run_with("")
        self.assertEqual(undisturbed.process.returncode, 0, undisturbed.text())
        expected = self.end()
        for fail in self.failures():
            with self.subTest(fail):
                running = self.run_with(fail)
                self.check(running, fail, expected)

    def failures(self):
        """All of them, or one of each kind."""
        record = read_record(self.log, self.disk)
        numbers = {call: worth_failing([one.path for one in record if one.call == call]) for call in FAILURES}
        every = [[f"{call}:{number}:{what}" for number in (numbers[call] if what != "slow" else [1])]
                 for call, kinds in FAILURES.items() for what in kinds]
        chance = random.Random(SEED)
        return sum(every, []) if NIGHTLY else [chance.choice(kind) for kind in every]

    def end(self):
        model = (self.run_folder / "checkpoints/last/model.safetensors").read_bytes()
        return model, results(self.run_folder)

    def check(self, running, fail, expected):
        code, told = running.process.returncode, running.err()
        call, _, what = fail.split(":")
        for words in ("internal", "terminate called", "Exception raised from"):
            self.assertNotIn(words, told)
        state = read_in(self.run_folder) if self.run_folder.exists() else {}
        for step in steps(state):
            self.assertTrue(is_whole(state, f"checkpoints/step_{step:08}"), f"step {step} is broken\n{told}")
        if what in HARMLESS:
            self.assertEqual(code, 0, told)
            self.assertEqual(told, "")
            return self.assertEqual(self.end(), expected)
        if call == "unlink" and not told:  # it was removed with the leftovers, a moment later
            return self.assertEqual([path for path in state if path.endswith(".tmp")], [])
        self.assertIn(TEXTS[what], told)
        if code == 0:
            self.assertIn("warning: ", told)
            return self.assertEqual(newest_whole(state), 6)
        self.assertNotEqual(self.status(), "completed")
        return newest_whole(state) < 0 or self.go_on(expected)

    def status(self):
        """As its summary tells it."""
        summary = pathlib.Path(self.run_folder / "summary.json")
        return json.loads(summary.read_text())["status"] if summary.exists() else ""

    def go_on(self, expected):
        self.ddprun("resume", self.run_folder)
        self.assertEqual(self.end()[0], expected[0])


def worth_failing(paths):
    """Their numbers, from 1. A file is often written in a hundred pieces: the first and the last stand for them."""
    around = ["", *paths, ""]
    return [number for number in range(1, len(paths) + 1) if not around[number - 1] == around[number] == around[number + 1]]


if __name__ == "__main__":
    main()

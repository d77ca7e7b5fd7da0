# SPDX-License-Identifier: MIT
"""Each call to the disk of a run fails once, or for ever where the disk is full: the run ends, says what failed, and leaves its
checkpoints whole; or it did without, and says so. A call that was interrupted, or wrote the half, or took its time, is no failure at all.
A disk that is full for a while, or cannot be read, costs no row."""

import csv
import json
import pathlib
import random
import shutil
import signal

from disk import read_in, read_record
from recorded import NIGHTLY, SEED, TINY, RecordedTest
from run_history import event_rows, is_whole, newest_whole, objects, steps

from command import Gate, main, nightly, results, summary

FAILURES = {"write": ("EIO", "ENOSPC", "EINTR", "short", "slow"), "sync": ("EIO", "EINTR", "slow"), "rename": ("EIO",), "create": ("EIO", "ENOSPC"),
            "mkdir": ("EIO",), "symlink": ("EIO",), "unlink": ("EIO",)}
HARMLESS = ("EINTR", "short", "slow")
LONGER = ["trainer.max_epochs=2"]  # than a run of one epoch
TEXTS = {"EIO": "Input/output error", "ENOSPC": "No space left on device"}
WORDS = [*TINY, "launch.workers=1", "launch.max_restarts=0"]


class FailingCalls(RecordedTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.disk / "run"

    def run_with(self, fail):
        """The run, ended; its record is the disk's alone."""
        shutil.rmtree(self.disk)
        self.disk.mkdir()
        return self.end_of(self.start(*WORDS, f"run.dir={self.run_folder}", env=self.fresh_record(fail)))

    def fresh_record(self, fail):
        for left in self.folder.glob("record*"):
            left.unlink()
        return self.recording(fail)

    def end_of(self, running):
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

    def test_a_disk_that_is_full_for_two_seconds(self):
        self.run_with("")
        expected = self.kept()
        writes = [one for one in read_record(self.log, self.disk) if one.call == "write"]
        numbers = range(1, len(writes) + 1, 50)
        for number in numbers if NIGHTLY else random.Random(SEED).sample(numbers, 1):
            with self.subTest(number):
                self.assert_nothing_lost(self.run_with(f"write:{number}:full"), expected)

    def test_a_resume_that_cannot_read(self):
        self.ddprun(*(word for word in WORDS if "max_epochs" not in word), "trainer.max_epochs=1", f"run.dir={self.run_folder}")
        shutil.copytree(self.disk, self.folder / "before", symlinks=True)
        self.assertEqual(self.resume_with("").process.returncode, 0)
        expected = self.kept()
        reads = worth_failing([one.path for one in read_record(self.log, self.disk) if one.call == "read"])
        chance = random.Random(SEED)
        for what in ("EIO", "dead"):
            for number in reads if NIGHTLY else chance.sample(reads, 1):
                with self.subTest(f"read {number} {what}"):
                    self.assert_nothing_lost(self.resume_with(f"read:{number}:{what}"), expected)

    def resume_with(self, fail):
        shutil.rmtree(self.disk)
        shutil.copytree(self.folder / "before", self.disk, symlinks=True)
        return self.end_of(self.start("resume", self.run_folder, *LONGER, env=self.fresh_record(fail) | {"CRASH_READS": "1"}))

    def kept(self):
        """All that the run's files say of its steps."""
        run = self.run_folder
        with open(run / "metrics.csv") as file:
            table = {(row["split"], row["step"]) for row in csv.DictReader(file) if row["split"] != "system"}
        lines = {name: list(objects((run / name).read_bytes())) for name in ("tables.jsonl", "events.jsonl")}
        return {"metrics.jsonl": results(run), "metrics.csv": table,
                "tables.jsonl": {(row["kind"], row["split"], row["step"]) for _, row in lines["tables.jsonl"]},
                "events.jsonl": {row["step"] for _, row in lines["events.jsonl"] if row["kind"] == "checkpoint"},
                "tensorboard": {step for file in run.glob("tensorboard/*") for step in event_rows(file.read_bytes()).values()},
                "config.yaml": "max_epochs: 2 " in (run / "config.yaml").read_text()}

    def assert_nothing_lost(self, running, expected):
        """Or it is said, and what was not done can be."""
        reported = running.text()
        if running.process.returncode != 0:
            self.assertRegex(reported, "|".join((*TEXTS.values(), "cannot be read")))
            if self.status() == "completed" and summary(self.run_folder).get("loggers"):
                return
            if not (self.run_folder / "config.yaml").exists():
                return  # it had not begun
            self.ddprun("resume", self.run_folder, *LONGER)
        self.assertEqual(self.kept(), expected, reported)

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
        code, reported = running.process.returncode, running.err()
        call, _, what = fail.split(":")
        for words in ("internal", "terminate called", "Exception raised from"):
            self.assertNotIn(words, reported)
        state = read_in(self.run_folder) if self.run_folder.exists() else {}
        for step in steps(state):
            self.assertTrue(is_whole(state, f"checkpoints/step_{step:08}"), f"step {step} is broken\n{reported}")
        if what in HARMLESS:
            self.assertEqual(code, 0, reported)
            self.assertEqual(reported, "")
            return self.assertEqual(self.end(), expected)
        if call == "unlink" and not reported:  # it was removed with the leftovers, a moment later
            return self.assertEqual([path for path in state if path.endswith(".tmp")], [])
        self.assertIn(TEXTS[what], reported)
        if code == 0:
            self.assertIn("warning: ", reported)
            return self.assertEqual(newest_whole(state), 6)
        if self.status() == "completed":  # and then its loggers lost something, which the full disk keeps out of summary.json
            self.assertIn("the run has ended and is saved, but for what its loggers lost", reported)
        return newest_whole(state) < 0 or self.carry_on(expected)

    def status(self):
        """As its summary says it."""
        summary = pathlib.Path(self.run_folder / "summary.json")
        return json.loads(summary.read_text())["status"] if summary.exists() else ""

    def carry_on(self, expected):
        self.ddprun("resume", self.run_folder)
        self.assertEqual(self.end()[0], expected[0])


class HungDisk(RecordedTest):
    """The file system hangs, as a network's does: the launcher hears signals all the same, says what it waits for, and ends."""

    def hang(self, *words):
        """A run whose disk hangs from its third step on."""
        run, mark, gate = self.disk / "run", self.folder / "hangs", Gate(self, 3)
        running = self.start(*TINY, "launch.workers=1", *words, f"run.dir={run}", env=gate.env | self.recording() | {"CRASH_HANG": str(mark)})
        gate.wait(running)
        mark.touch()
        gate.open()
        return running

    def assert_ended(self, running, code):
        self.assertEqual(running.wait(60), code, running.text())
        self.assertIn("its file system has not answered for 10 s", running.err())
        self.assert_nothing_left()

    def test_a_second_ctrl_c_ends_at_once(self):
        running = self.hang()
        running.send(signal.SIGINT)
        self.wait_until(lambda: "Ctrl-C again ends at once" in running.err(), "the first one's answer", running)
        self.wait_until(lambda: not self.workers() or running.send(signal.SIGINT), "the end of the workers", running)
        self.assert_ended(running, 130)

    @nightly
    def test_a_termination_ends_after_its_grace(self):
        running = self.hang("launch.grace_seconds=1")
        running.send(signal.SIGTERM)
        self.assert_ended(running, 143)


def worth_failing(paths):
    """Their numbers, from 1. A file is often written in a hundred pieces: the first and the last stand for them."""
    around = ["", *paths, ""]
    return [number for number in range(1, len(paths) + 1) if not around[number - 1] == around[number] == around[number + 1]]


if __name__ == "__main__":
    main()

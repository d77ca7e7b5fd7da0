# SPDX-License-Identifier: MIT
"""The run folder's file system hangs, as a network's does: its launcher hears signals all the same, says what it waits for, and ends."""

import signal

from recorded import TINY, RecordedTest

from command import Gate, main, nightly


class HungDisk(RecordedTest):
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


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""A disk that fills up while checkpoints are written: a file system of a few megabytes. Skipped where none can be mounted."""

import os
import unittest

from command import SMALL, CommandTest, checkpoint_steps, differences, is_whole, main, summary
from mounts import enter_namespace, mount_disk

MIB = 1 << 20
# A checkpoint of this network takes 1.6 MB, and three of them stay.
WORDS = [*SMALL, "model=mlp", "model.hidden=250", "launch.workers=2", "checkpoint.every=5st"]


class FullDisk(CommandTest):
    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        mount_disk(self, self.disk, "10m")
        self.run_folder = self.disk / "run"

    def leave_free(self, size):
        status = os.statvfs(self.disk)
        (self.disk / "ballast").write_bytes(bytes(status.f_bavail * status.f_bsize - size))

    def assert_told(self, running):
        self.assertIn("No space left on device", running.err())
        self.assertIn(str(self.run_folder), running.err())
        for words in ("internal", "Exception raised from", "terminate called"):
            self.assertNotIn(words, running.err())
        self.assert_nothing_left()

    def test_a_disk_that_fills_costs_nothing_but_the_steps_since_the_last_checkpoint(self):
        self.leave_free(4 * MIB)
        running = self.ddprun(*WORDS, f"run.dir={self.run_folder}", code=1)
        self.assert_told(running)
        self.assertIn("cannot save the checkpoint of step ", running.err())
        self.assertIn(f"ddprun resume {self.run_folder}", running.err())
        steps = checkpoint_steps(self.run_folder)
        self.assertIn(5, steps)
        for step in steps:
            self.assertTrue(is_whole(self.run_folder / f"checkpoints/step_{step:08}"))
        self.assertEqual(summary(self.run_folder)["status"], "failed")

        (self.disk / "ballast").unlink()
        resumed = self.ddprun("resume", self.run_folder)
        self.assertIn(f"resumed at step {steps[-1]}\n", resumed.out())
        self.ddprun(*WORDS, "run.dir=reference")
        mine, other = (run / "checkpoints/last/model.safetensors" for run in (self.run_folder, self.folder / "reference"))
        self.assertEqual(mine.read_bytes(), other.read_bytes())
        self.assertEqual(differences(self.run_folder, self.folder / "reference"), {})

    def test_a_disk_that_fills_while_workers_write_one_file_together(self):
        self.leave_free(6 * MIB)
        running = self.ddprun(*WORDS, "optimizer=adamw", "trainer.shard_optimizer=true", f"run.dir={self.run_folder}", code=1)
        self.assert_told(running)
        self.assertIn("cannot save the checkpoint of step ", running.err())
        steps = checkpoint_steps(self.run_folder)
        self.assertTrue(steps)
        for step in steps:
            self.assertTrue(is_whole(self.run_folder / f"checkpoints/step_{step:08}"))
        self.assertEqual(list((self.run_folder / "checkpoints").glob("*.tmp")), [])

    def test_a_disk_without_a_byte_left_starts_no_run(self):
        self.leave_free(0)
        running = self.ddprun(*WORDS, f"run.dir={self.run_folder}", code=2)
        self.assert_told(running)
        self.assertEqual(len(running.err().splitlines()), 1, running.err())

    def test_a_full_temporary_folder_is_told_with_the_variable_that_names_it(self):
        self.leave_free(0)
        running = self.ddprun(*WORDS, "run.dir=run", code=1, env={"TMPDIR": str(self.disk)})
        self.assertRegex(running.err(), "cannot start a worker: .*No space left on device; .*TMPDIR names")


if __name__ == "__main__":
    try:
        enter_namespace()
    except unittest.SkipTest as reason:
        main(reason)
    main()

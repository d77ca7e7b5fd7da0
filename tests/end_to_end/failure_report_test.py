# SPDX-License-Identifier: MIT
"""What the command says, and what is left, when workers fail or are killed."""

import os
import signal
import unittest

from command import SMALL, CommandTest, checkpoint_steps, is_whole, summary

WORDS = [*SMALL, "model=convnet_bn", "trainer.max_epochs=4", "launch.workers=2", "run.dir=run"]


class FailureReport(CommandTest):
    def begin(self, *words, rank=0):
        return self.start_held(4, *WORDS, *words, rank=rank)

    def assert_no_trace(self, running):
        for words in ("internal", "Exception raised from", "frame #", "terminate called", "what():"):
            self.assertNotIn(words, running.err())

    def test_a_killed_worker_is_named_with_its_signal_and_log(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                running = self.begin("checkpoint.every=2st", f"run.dir=run{rank}")
                os.kill(self.workers()[rank], signal.SIGKILL)
                self.assertEqual(running.wait(), 128 + signal.SIGKILL, running.text())
                self.assertIn(f"rank {rank} failed first: killed by SIGKILL (9)", running.err())
                self.assertIn(f"other ranks: {1 - rank} lost contact", running.err())
                self.assertIn(f"run{rank}/logs/rank_{rank}.log", running.err())
                self.assertIn(f"resume from the last checkpoint with: ddprun resume {self.folder}/run{rank}", running.err())
                self.assert_no_trace(running)
                found = summary(self.folder / f"run{rank}")
                self.assertEqual(found["status"], "failed")
                self.assertIn("SIGKILL", found["stop_reason"])
                self.assert_nothing_left()

    def test_a_quit_key_ends_at_once_and_says_so(self):
        running = self.begin("run.dir=quit_worker")
        os.kill(self.workers()[1], signal.SIGQUIT)
        self.assertEqual(running.wait(), 128 + signal.SIGQUIT, running.text())
        self.assertIn("rank 1: SIGQUIT: ends at once, and saves nothing\n", running.err())
        self.assertIn("rank 1 failed first: killed by SIGQUIT (3)", running.err())
        running = self.begin("run.dir=quit_launcher")
        running.send(signal.SIGQUIT)
        self.assertEqual(running.wait(), -signal.SIGQUIT, running.text())
        self.assertIn("ddprun: SIGQUIT: ends at once, and saves nothing\n", running.err())
        self.assert_nothing_left()

    def test_a_checkpoint_under_way_is_written_before_an_error_ends_the_run(self):
        for rank in (0, 1):
            run = self.folder / f"run_{rank}"
            self.ddprun(*SMALL, "model=mlp", "launch.workers=2", "checkpoint.every=5st", f"run.dir={run}", code=1,
                        env={"DDPRUN_FAULT": f"throw:loading_data:5:{rank}"})
            self.assertEqual(checkpoint_steps(run), [5])
            self.assertTrue(is_whole(run / "checkpoints/step_00000005"))
            found = summary(run)  # by the rows that are on the disk with the checkpoint
            self.assertEqual((found["steps"], found["epochs"], found["samples"]), (4, 0.4, 256))
            self.assertGreater(found["train_seconds"], 0)

    def test_no_worker_outlives_a_killed_launcher(self):
        running = self.begin()
        self.assertEqual(len(self.workers()), 2)
        running.send(signal.SIGKILL)
        self.assertEqual(running.wait(), -signal.SIGKILL)
        self.assert_nothing_left()

    def test_a_signal_to_one_worker_alone_stops_all_in_order(self):
        running = self.begin(rank=1)
        os.kill(self.workers()[1], signal.SIGTERM)
        self.assertEqual(running.wait(), 75, running.text())
        self.assertEqual(summary(self.folder / "run")["status"], "preempted")
        self.assert_nothing_left()

    def test_a_reader_that_goes_away_does_not_end_the_run(self):
        reader, writer = os.pipe()
        os.close(reader)
        running = self.start(*SMALL, "model=mlp", "run.dir=run", stdout=writer)
        os.close(writer)
        self.assertEqual(running.wait(), 0, running.err())
        self.assertEqual(summary(self.folder / "run")["status"], "completed")

    def test_a_worker_that_hangs_while_the_gpus_are_connected_is_found(self):
        running = self.ddprun(*SMALL, "model=mlp", "launch.workers=2", "launch.hang_seconds=4", "run.dir=run", code=1,
                              env={"DDPRUN_FAULT": "hang:connecting:0:1"})
        self.assertRegex(running.err(), r"rank 1 has hung for \d+ s at step 0, connecting")
        self.assert_nothing_left()

    def test_a_worker_that_stands_still_is_found_by_the_others(self):
        running = self.begin("launch.timeout_seconds=6", rank=1)
        os.kill(self.workers()[1], signal.SIGSTOP)
        self.assertEqual(running.wait(), 1, running.text())
        self.assertRegex(running.err(), r"rank 1 has hung for \d+ s at step \d+, \w+; the process is stopped \(SIGSTOP\)\n"
                                        r"  rank 0 gave up: .* failed: .*([Tt]imed out|timeout)")
        self.assert_no_trace(running)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Started by others: torchrun and Open MPI start one ddprun for each rank."""

import os
import pathlib
import shutil
import signal
import sys
import unittest

from command import DDPRUN, SMALL, CommandTest, Gate, differences, free_port, nightly, summary

WORDS = [*SMALL, "model=mlp", "model.hidden=32", "trainer.global_batch=96", "checkpoint.every=5st"]
TORCHRUN = pathlib.Path(sys.executable).with_name("torchrun")


class EngineTest(CommandTest):
    def assert_ends(self, running, code, seconds=120):
        self.assertEqual(running.wait(seconds), code, running.text())

    def alone(self, *words):
        run = self.folder / "alone"
        self.ddprun(*WORDS, "launch.workers=2", f"run.dir={run}", *words)
        return run


@unittest.skipUnless(TORCHRUN.exists(), "there is no torchrun beside this Python")
class Torchrun(EngineTest):
    def torchrun(self, *words, restarts=0, meeting=("--standalone",), env=None):
        return self.start_program(TORCHRUN, *meeting, "--nproc-per-node=2", f"--max-restarts={restarts}", "--no-python",
                                  DDPRUN, *WORDS, "run.dir=run", *words, env=env)

    def test_it_trains_as_two_workers_do(self):
        self.assert_ends(self.torchrun(), 0)
        self.assertEqual(differences(self.folder / "run", self.alone()), {})
        ended = summary(self.folder / "run")
        self.assertEqual((ended["world_size"], ended["nodes"]), (2, 1))
        self.assert_nothing_left()

    def kill_worker(self, **options):
        """In the middle of a run."""
        gate = Gate(self, 10)
        running = self.torchrun(env=gate.env, **options)
        gate.wait(running)
        os.kill(self.workers()[1], signal.SIGKILL)
        return running

    def assert_continues(self, running):
        self.assert_ends(running, 0)
        self.assertIn("resuming run", running.err())
        self.assertEqual(differences(self.folder / "run", self.alone()), {})
        self.assert_nothing_left()

    def test_its_restart_continues_from_the_last_checkpoint(self):
        self.assert_continues(self.kill_worker(restarts=1))

    @nightly
    def test_its_restart_of_a_job_without_a_name_continues_too(self):
        port = free_port()
        self.assert_continues(self.kill_worker(restarts=1, meeting=(f"--master-port={port}",)))

    def test_restarts_are_its_own_affair(self):
        running = self.torchrun("launch.max_restarts=3")
        self.assert_ends(running, 0)
        self.assertIn("launch.max_restarts: torchrun restarts this job itself", running.err())

    def test_its_report_has_the_cause_of_a_mistake_and_the_terminal_has_it_once(self):
        running = self.torchrun("model.hiden=3")
        self.assert_ends(running, 1)
        self.assertRegex(running.err(), r"traceback : .*model.hiden: unknown key; did you mean hidden\?")
        self.assertLessEqual(running.err().count("ddprun: error: "), 1, running.err())

    def test_it_says_the_cause_of_a_failure(self):
        running = self.kill_worker()
        self.assert_ends(running, 1)
        self.assertNotIn("error_file: <N/A>", running.err())
        self.assertRegex(running.err(), r"traceback : rank 1 on \S+ failed: killed by SIGKILL")
        self.assertRegex(running.err(), r"ddprun: error: rank 1 on \S+ failed first: killed by SIGKILL")
        self.assert_nothing_left()


@unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun here (openmpi-bin)")
class OpenMpi(EngineTest):
    def mpirun(self, *words, env=None):
        return self.start_program("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", DDPRUN, *WORDS, "run.dir=run",
                                  *words, env=env)

    def held(self, *words):
        gate = Gate(self, 10)
        running = self.mpirun(*words, env=gate.env)
        gate.wait(running)
        return running

    def test_a_mistake_is_reported_once_on_a_machine(self):
        running = self.mpirun("model.hiden=3")
        self.assert_ends(running, 2)
        self.assertEqual(running.text().count("model.hiden: unknown"), 1, running.text())

    def test_it_trains_as_two_workers_do(self):
        self.assert_ends(self.mpirun(), 0)
        self.assertEqual(differences(self.folder / "run", self.alone()), {})

    def test_a_dead_worker_is_replaced_within_the_job(self):
        running = self.held("launch.max_restarts=1", "launch.restart_seconds=0.1")
        os.kill(self.workers()[1], signal.SIGKILL)
        self.assert_ends(running, 0)
        self.assertEqual(differences(self.folder / "run", self.alone()), {})
        self.assert_nothing_left()

    def test_its_end_by_a_signal_saves(self):
        running = self.held("trainer.max_epochs=8")
        running.send(signal.SIGTERM)
        running.wait(60)
        self.assert_nothing_left()
        self.ddprun("check", "experiments/digits.yaml")
        self.assertTrue((self.folder / "run/checkpoints/last").exists())


if __name__ == "__main__":
    unittest.main()

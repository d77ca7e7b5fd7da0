# SPDX-License-Identifier: MIT
"""kill -9 at any moment, then `ddprun resume`: the end is that of a run which nobody disturbed, bit for bit."""

import json
import os
import pathlib
import shutil
import signal
import tempfile
import unittest

import torch

from command import SMALL, CommandTest, all_rows, checkpoint_steps, is_whole, results, summary

# BatchNorm has buffers to restore, dropout random generators. The 150 validation images come in enough batches for an
# evaluation to be killed in.
BATCH_NORM = [*SMALL, "model=convnet_bn", "trainer.max_epochs=4", "trainer.eval_batch=8", "checkpoint.every=5st"]
DROPOUT = [*BATCH_NORM, "model=mlp", "model.hidden=64", "model.dropout=0.5"]
STEPS = 40
WORKERS = 2


class Reference:
    """The end of an undisturbed run, by the words it was started with; each is run once."""

    folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-e2e-reference-"))
    known = {}

    @classmethod
    def of(cls, test, words):
        if tuple(words) not in cls.known:
            run = cls.folder / str(len(cls.known))
            test.ddprun(*words, f"launch.workers={WORKERS}", f"run.dir={run}")
            cls.known[tuple(words)] = run
        return cls.known[tuple(words)]


def tearDownModule():
    shutil.rmtree(Reference.folder, ignore_errors=True)


def last(run):
    return run / "checkpoints/last"


def training_state(run):
    state = torch.load(last(run) / "training.pt", weights_only=True)
    progress = json.loads(state["progress"])
    progress.pop("train_seconds")
    ranks = [torch.load(last(run) / f"rank_{rank}.pt", weights_only=True)["rank"] for rank in range(WORKERS)]
    return [state["optimizer"], *ranks], progress


class KillAndResume(CommandTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"

    def begin(self, words, env=None):
        return self.start(*words, f"launch.workers={WORKERS}", "run.dir=run", env=env)

    def assert_same_end(self, words):
        reference = Reference.of(self, words)
        run = self.run_folder
        self.assertEqual((last(run) / "model.safetensors").read_bytes(), (last(reference) / "model.safetensors").read_bytes())
        (mine, my_progress), (expected, progress) = training_state(run), training_state(reference)
        self.assertEqual(my_progress, progress)
        for dictionary, other in zip(mine, expected):
            self.assertEqual(dictionary.keys(), other.keys())
            self.assertLess(0, len(dictionary))
            for name, tensor in dictionary.items():
                self.assertTrue(torch.equal(tensor, other[name]), name)
        self.assertEqual(results(run), results(reference))
        ends = [{name: summary(path)[name] for name in ("status", "steps", "samples", "metrics", "best", "test_correct")}
                for path in (run, reference)]
        self.assertEqual(*ends)
        self.assertEqual(ends[0]["steps"], STEPS)

    def kill(self, victims, running):
        """Of "launcher", 0 and 1: all of them as one blow."""
        workers = self.workers()
        pids = [running.pid if victim == "launcher" else workers[victim] for victim in victims]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        code = running.wait(30)
        if "launcher" in victims:
            self.assertEqual(code, -signal.SIGKILL)
        else:
            self.assertEqual(code, 128 + signal.SIGKILL, running.text())
            self.assertIn(f"rank {victims[0]} ", running.err())
        self.assert_nothing_left()

    def resume(self):
        """Every checkpoint that bears its final name is whole, and the newest of them is where the run goes on."""
        steps = checkpoint_steps(self.run_folder)
        for step in steps:
            self.assertTrue(is_whole(self.run_folder / f"checkpoints/step_{step:08}"))
        resumed = self.ddprun("resume", "run")
        self.assertNotIn("broken", resumed.err())
        if steps:
            self.assertIn(f"resumed at step {steps[-1]}\n", resumed.out())
        else:
            self.assertIn("no checkpoint yet", resumed.err())
        self.assert_nothing_left()
        left = [path.name for path in (self.run_folder / "checkpoints").iterdir() if path.suffix]
        self.assertEqual(left, [], "what the kill cut off was not cleaned up")

    def kill_at(self, step, words, *victims):
        running = self.begin(words)
        self.wait_for_step(running, self.run_folder, step)
        self.kill(victims, running)
        self.assertLess(max(row["step"] for row in all_rows(self.run_folder)), STEPS, "it was over before the kill")
        self.resume()
        self.assert_same_end(words)

    def test_worker_killed_before_the_first_checkpoint(self):
        self.kill_at(2, BATCH_NORM, 1)

    def test_launcher_killed_at_step_6(self):
        self.kill_at(6, DROPOUT, "launcher")

    def test_all_killed_at_step_8(self):
        self.kill_at(8, BATCH_NORM, "launcher", 0, 1)

    def test_worker_killed_in_the_first_evaluation(self):
        self.kill_at(10, BATCH_NORM, 0)

    def test_launcher_killed_at_step_14(self):
        self.kill_at(14, BATCH_NORM, "launcher")

    def test_all_workers_killed_at_step_18(self):
        self.kill_at(18, DROPOUT, 1, 0)

    def test_all_killed_in_the_second_evaluation(self):
        self.kill_at(20, DROPOUT, "launcher", 1, 0)

    def test_worker_killed_at_step_26(self):
        self.kill_at(26, DROPOUT, 1)

    def test_launcher_killed_in_the_third_evaluation(self):
        self.kill_at(30, BATCH_NORM, "launcher")

    def test_all_killed_at_step_34(self):
        self.kill_at(34, BATCH_NORM, 0, 1, "launcher")

    def test_killed_twice(self):
        running = self.begin(BATCH_NORM)
        self.wait_for_step(running, self.run_folder, 12)
        self.kill([0], running)
        again = self.start("resume", "run")
        self.wait_until(lambda: any(row["attempt"] == 1 and row["step"] >= 24 for row in all_rows(self.run_folder)), "step 24", again)
        self.kill(["launcher"], again)
        self.resume()
        self.assert_same_end(BATCH_NORM)

    # While a checkpoint is being written, at points that only the program itself can hit.

    def kill_while_saving(self, point, step=15, rank=0):
        running = self.begin(BATCH_NORM, env={"DDPRUN_FAULT": f"kill:{point}:{step}:{rank}"})
        self.assertEqual(running.wait(), 128 + signal.SIGKILL, running.text())
        self.assertIn(f"rank {rank} failed first: killed by SIGKILL", running.err())
        self.assert_nothing_left()
        steps = checkpoint_steps(self.run_folder)
        self.resume()
        self.assert_same_end(BATCH_NORM)
        return steps

    def test_killed_with_its_own_file_written(self):
        self.assertEqual(self.kill_while_saving("rank_file", rank=1), [5, 10])

    def test_killed_with_the_weights_written(self):
        self.assertEqual(self.kill_while_saving("model_file"), [5, 10])

    def test_killed_before_the_manifest(self):
        self.assertEqual(self.kill_while_saving("before_manifest"), [5, 10])

    def test_killed_before_the_checkpoint_gets_its_name(self):
        self.assertEqual(self.kill_while_saving("before_rename"), [5, 10])

    def test_killed_before_the_links_are_set(self):
        self.assertEqual(self.kill_while_saving("after_rename"), [5, 10, 15])

    def test_killed_before_old_checkpoints_are_removed(self):
        self.assertIn(20, self.kill_while_saving("before_prune", step=20))


if __name__ == "__main__":
    unittest.main()

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

from command import SMALL, CommandTest, all_rows, checkpoint_steps, differences, is_whole, summary

# BatchNorm has buffers to restore, dropout random generators. The 150 validation images come in enough batches for an
# evaluation to be killed in.
BATCH_NORM = [*SMALL, "model=convnet_bn", "optimizer.lr=0.005", "trainer.max_epochs=4", "trainer.eval_batch=8", "checkpoint.every=5st"]
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
        return self.start(*words, f"launch.workers={WORKERS}", f"run.dir={self.run_folder}", env=env)

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
        self.assertEqual(differences(run, reference), {})
        ends = [{name: summary(path)[name] for name in ("status", "steps", "samples", "metrics", "best", "test_correct")}
                for path in (run, reference)]
        self.assertEqual(*ends)
        self.assertEqual(ends[0]["steps"], STEPS)

    def kill(self, running, victims, condition):
        """Of "launcher", 0 and 1, all as one blow, once the condition is true. False where the training was over by then."""
        self.wait_until(lambda: len(self.workers()) == WORKERS, "the workers", running)
        pids = self.workers() | {"launcher": running.pid}
        self.wait_until(condition, "the moment to kill", running)
        for victim in victims:
            try:
                os.kill(pids[victim], signal.SIGKILL)
            except ProcessLookupError:
                pass
        code = running.wait(30)
        if max(row["step"] for row in all_rows(self.run_folder)) == STEPS:
            return False
        if "launcher" in victims:
            self.assertEqual(code, -signal.SIGKILL)
        else:
            self.assertEqual(code, 128 + signal.SIGKILL, running.text())
            self.assertRegex(running.err(), f"rank [{victims[0]}{victims[-1]}] .*killed by SIGKILL")
        self.assert_nothing_left()
        return True

    def resume(self):
        """Every checkpoint that bears its final name is whole, and the newest of them is where the run goes on."""
        steps = checkpoint_steps(self.run_folder)
        for step in steps:
            self.assertTrue(is_whole(self.run_folder / f"checkpoints/step_{step:08}"))
        resumed = self.ddprun("resume", self.run_folder)
        self.assertNotIn("broken", resumed.err())
        if steps:
            self.assertIn(f"resumed at step {steps[-1]}\n", resumed.out())
        else:
            self.assertIn("no checkpoint yet", resumed.err())
        self.assert_nothing_left()
        left = [path.name for path in (self.run_folder / "checkpoints").iterdir() if path.suffix]
        self.assertEqual(left, [], "what the kill cut off was not cleaned up")

    def kill_at(self, step, words, *victims):
        for attempt in range(5):
            self.run_folder = self.folder / f"run{attempt}"
            if self.kill(self.begin(words), victims, lambda: self.has_reached(step)):
                self.resume()
                return self.assert_same_end(words)
        self.fail("five runs were over before they could be killed")

    def has_reached(self, step, attempt=0):
        return any(row["attempt"] == attempt and row["step"] >= step for row in all_rows(self.run_folder))

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
        self.assertTrue(self.kill(self.begin(BATCH_NORM), [0], lambda: self.has_reached(12)))
        again = self.start("resume", self.run_folder)
        self.assertTrue(self.kill(again, ["launcher"], lambda: self.has_reached(24, attempt=1)))
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

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

import weights
from command import NIGHTLY, SMALL, CommandTest, checkpoint_steps, differences, is_whole, summary

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
    progress = json.loads((last(run) / "state.json").read_text())
    for times in ("train_seconds", "clock"):
        progress.pop(times)
    progress["part"].pop("train_seconds")
    names = ("optimizer", *(f"rank_{rank}" for rank in range(WORKERS)))
    return [weights.load(last(run) / f"{name}.safetensors") for name in names], progress


class KillAndResume(CommandTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"

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

    def kill(self, running, *victims):
        """Of "launcher", 0 and 1, all as one blow."""
        pids = self.workers() | {"launcher": running.pid}
        for victim in victims:
            os.kill(pids[victim], signal.SIGKILL)
        code = running.wait()
        if "launcher" in victims:
            self.assertEqual(code, -signal.SIGKILL)
        else:
            self.assertEqual(code, 128 + signal.SIGKILL, running.text())
            self.assertRegex(running.err(), f"rank [{victims[0]}{victims[-1]}] .*killed by SIGKILL")
        self.assert_nothing_left()

    def newest_checkpoint(self):
        """Every one that bears its final name is whole. Returns the step of the last; 0: there is none."""
        steps = checkpoint_steps(self.run_folder)
        for step in steps:
            self.assertTrue(is_whole(self.run_folder / f"checkpoints/step_{step:08}"))
        return max(steps, default=0)

    def assert_resumed(self, running, step):
        """At the newest checkpoint, what the kill cut off cleaned up."""
        self.assertNotIn("broken", running.err())
        if step:
            self.assertIn(f"resumed at step {step}\n", running.out())
        else:
            self.assertIn("no checkpoint yet", running.err())

    def end(self, words):
        newest = self.newest_checkpoint()
        self.assert_resumed(self.ddprun("resume", self.run_folder), newest)
        self.assert_nothing_left()
        left = [path.name for path in (self.run_folder / "checkpoints").iterdir() if path.suffix]
        self.assertEqual(left, [], "what the kill cut off was not cleaned up")
        self.assert_same_end(words)

    def kill_again_and_again(self, words, *kills):
        """Each at a later step of the one run, and again where it went on from the checkpoint before."""
        start, newest = [*words, f"launch.workers={WORKERS}", f"run.dir={self.run_folder}"], None
        for attempt, (step, point, *victims) in enumerate(kills):
            running = self.start_held(step, *start, point=point, attempt=attempt)
            self.kill(running, *victims)
            if attempt > 0:
                self.assert_resumed(running, newest)
            newest = self.newest_checkpoint()
            start = ["resume", self.run_folder]
        self.end(words)

    def test_killed_at_six_moments(self):
        self.kill_again_and_again(BATCH_NORM, (2, "computing", 1), (8, "computing", "launcher", 0, 1), (10, "evaluating", 0),
                                  (14, "loading_data", "launcher"), (30, "evaluating", "launcher"), (34, "computing", 0, 1, "launcher"))

    def test_killed_at_four_moments_with_random_numbers_drawn(self):
        self.kill_again_and_again(DROPOUT, (6, "agreeing", "launcher"), (18, "computing", 1, 0), (20, "evaluating", "launcher", 1, 0),
                                  (26, "computing", 1))

    # While a checkpoint is being written, at points that only the program itself can hit.

    def test_killed_at_each_point_of_a_save(self):
        start = [*BATCH_NORM, f"launch.workers={WORKERS}", f"run.dir={self.run_folder}"]
        saves = (("rank_file", 15, 0, [5, 10]), ("model_file", 15, 0, [5, 10]), ("before_manifest", 15, 0, [5, 10]),
                 ("before_rename", 15, 0, [5, 10]), ("after_rename", 15, 0, [5, 10, 15]), ("before_prune", 20, 0, [5, 10, 15, 20]))
        for attempt, (point, step, rank, expected) in enumerate(saves if NIGHTLY else saves[1::2]):
            running = self.start(*start, env={"DDPRUN_FAULT": f"kill:{point}:{step}:{rank}:{attempt}"})
            self.assertEqual(running.wait(), 128 + signal.SIGKILL, running.text())
            self.assertIn(f"rank {rank} failed first: killed by SIGKILL", running.err())
            self.assert_nothing_left()
            self.newest_checkpoint()
            self.assertEqual(checkpoint_steps(self.run_folder), expected, point)
            start = ["resume", self.run_folder]
        self.end(BATCH_NORM)


if __name__ == "__main__":
    unittest.main()

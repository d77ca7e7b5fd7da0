# SPDX-License-Identifier: MIT
"""kill -9 at any moment, then `ddprun resume`: the end is that of a run which nobody disturbed, bit for bit. So it is where keys are switched
that change no number, before the kill or with the resume."""

import dataclasses
import json
import os
import signal
import unittest

import torch

import weights
from command import NIGHTLY, SMALL, CommandTest, checkpoint_steps, is_whole, summary

# BatchNorm has buffers to restore, dropout random generators. The 150 validation images come in enough batches for an
# evaluation to be killed in.
BATCH_NORM = [*SMALL, "model=convnet_bn", "optimizer.lr=0.005", "trainer.max_epochs=4", "trainer.eval_batch=8", "checkpoint.every=5st"]
DROPOUT = [*BATCH_NORM, "model=mlp", "model.hidden=64", "model.dropout=0.5"]
STEPS = 40
WORKERS = 2


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

    def assert_same_end_as(self, words):
        reference = self.undisturbed(*words, f"launch.workers={WORKERS}")
        run = self.run_folder
        self.assert_same_end(run, reference, ("model",))
        (mine, my_progress), (expected, progress) = training_state(run), training_state(reference)
        self.assertEqual(my_progress, progress)
        for dictionary, other in zip(mine, expected):
            self.assertEqual(dictionary.keys(), other.keys())
            self.assertLess(0, len(dictionary))
            for name, tensor in dictionary.items():
                self.assertTrue(torch.equal(tensor, other[name]), name)
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
        self.assert_same_end_as(words)

    def kill_again_and_again(self, words, *kills):
        """Each at a later step of the one run, and again where it continued from the checkpoint before."""
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


@dataclasses.dataclass(frozen=True)
class Way:
    """Another way to the end of an undisturbed run."""

    words: tuple = ()    # of the start, beside those of that run
    says: str = "^"      # a pattern of what the start says, where nothing kills it
    killed: tuple = ()   # steps, as of kill_and_resume()
    fault: str = ""      # or where a rank dies by itself: point, step and rank
    resumed: tuple = ()  # words of the resume


@dataclasses.dataclass(frozen=True)
class Row:
    words: tuple
    ways: tuple
    files: tuple = ("model", "optimizer", "ema")  # that have the same bits


def shared(value):
    return (f"trainer.shard_optimizer={value}",)


def again(blocks):
    return (f"trainer.recompute={blocks}",)


AVERAGED = (*SMALL, "trainer.global_batch=96", "trainer.ema_decay=0.9", "checkpoint.every=4st", "checkpoint.keep=9")
IMAGES = (*SMALL, "trainer.global_batch=24", "checkpoint.every=4st", "checkpoint.keep=9", "dataset.train_size=100")
TEXT = ("experiments/text.yaml", "model.width=32", "model.heads=2", "dataset.context=16", "launch.device=cpu", "trainer.max_steps=8",
        "trainer.max_epochs=1", "launch.threads=1", "checkpoint.every=3st")
SHARED = Way(shared("true"), r"trainer.shard_optimizer: \d workers share the optimizer's step and state: [\d, to]+ of [\d,]+ numbers each")
AGAIN = r"trainer\.recompute: backward computes \d+ of the model's \d+ blocks again"
FEATURES = {
    "samples_drawn_by_weight": Row((*AVERAGED, "model=mlp", "trainer.sampling={weights: weights.txt}", "launch.workers=2"), (Way(killed=(10,)),)),
    "layers_frozen_until_later": Row(
        (*AVERAGED, "model=convnet_bn", "optimizer.momentum=0.9", "trainer.clip_norm=0.5", "launch.workers=4",
         "+pretrained={freeze: ['layer1.*', 'layer2.0.*'], unfreeze: {9st: 'layer1.*'}, layer_decay: 0.75}"),
        (SHARED, Way(killed=(6, 9, 12)))),
    "checkpoints_of_what_trains": Row(
        (*AVERAGED, "model=convnet_bn", "pretrained={freeze: [layer1.*, layer2.0.*]}", "launch.workers=2", *shared("true")),
        (Way(("checkpoint.only_trainable=true",), killed=(10,)),), files=("optimizer", "ema", "rank_0", "rank_1")),
    "a_shared_optimizer": Row(
        (*AVERAGED, "model=mlp", "predictions={num_batches_to_log: 1}", "optimizer=adamw", "trainer.micro_batch=10", "trainer.precision=bf16",
         "launch.workers=3"),
        (SHARED, Way(shared("true"), killed=(10,), resumed=shared("false")), Way(shared("false"), killed=(10,), resumed=shared("true")),
         *(Way(shared("true"), fault=fault) for fault in ("created:8:0", "own_part:8:2", "compared:8:0")))),
    "a_shared_optimizer_with_copies_in_float32": Row(
        (*AVERAGED, "model=convnet_bn", "optimizer=adamw", "trainer.precision=bf16_master", "trainer.clip_norm=0.5", "launch.workers=3"),
        (SHARED, Way(shared("true"), killed=(10,), resumed=shared("false")))),
    "muon_shared": Row((*AVERAGED, "model=convnet_bn", "optimizer=muon", "trainer.on_nonfinite=skip", "launch.workers=2"), (SHARED,)),
    "texts": Row((*TEXT, "model.layers=3", "model.dropout=0.1", "trainer.ema_decay=0.9", "launch.workers=3"),
                 (SHARED, Way((*shared("true"), *again("'blocks.*'")), AGAIN), Way(killed=(7,)))),
    "texts_in_bf16": Row((*TEXT, "model.layers=3", "model.dropout=0.1", "trainer.precision=bf16", "launch.workers=1"), (Way(again("all"), AGAIN),)),
    "blocks_computed_again": Row(
        (*IMAGES, "model=resnet", "trainer.clip_norm=0.5", "trainer.ema_decay=0.9", "trainer.max_steps=6", "launch.workers=2",
         "+pretrained={freeze: [conv1.*, bn1.*, 'layer1.0.*']}"),
        (Way(again("['layer1.*', 'layer[34].1']"), AGAIN),)),
    "micro_batches_computed_again": Row(
        (*IMAGES, "model=wide_resnet", "model.depth=10", "model.widen_factor=1", "model.dropout=0.2", "optimizer=muon", "trainer.micro_batch=3",
         "trainer.max_steps=6", "launch.workers=3"),
        (Way(again("all"), AGAIN), Way(again("all"), killed=(5,), resumed=again("off")), Way(again("off"), killed=(5,), resumed=again("all")))),
    "shards_computed_again": Row((*IMAGES, "model=resnet", "trainer.shards=4", "trainer.max_steps=4", "launch.workers=2"), (Way(again("all"), AGAIN),)),
    "what_is_watched": Row((*AVERAGED, "model=mlp"), (Way(("+profile={steps: 3..12}", "+histograms.every=2st")),)),
    "fast_paths": Row((*AVERAGED, "model=convnet_bn", "launch.workers=2", "trainer.memory_format=channels_last"),
                      tuple(Way((key,)) for key in ("dataset.resident=host", "dataset.resident=off", "trainer.broadcast_buffers=every_step"))),
}  # fmt: skip


class Features(CommandTest):
    def check(self, row):
        (self.folder / "weights.txt").write_text("".join(f"{0.1 * (number % 7)}\n" for number in range(610)))
        whole = self.train("whole", *row.words)
        for number, way in enumerate(row.ways):
            with self.subTest(way=way):
                self.assert_same_end(self.go(way, f"run{number}", (*row.words, *way.words, "launch.max_restarts=0")), whole, row.files)
                self.assertEqual(list(self.folder.glob("run*/checkpoints/*.tmp")), [])

    def go(self, way, run, words):
        if way.killed:
            return self.kill_and_resume(run, way.killed, *words, resumed=way.resumed, rank=1)
        if not way.fault:
            self.assertRegex(self.ddprun(*words, f"run.dir={run}").err(), way.says)
            return self.folder / run
        killed = self.ddprun(*words, f"run.dir={run}", env={"DDPRUN_FAULT": f"kill:{way.fault}"}, code=128 + signal.SIGKILL)
        self.assertIn(f"rank {way.fault[-1]} failed first: killed by SIGKILL", killed.err())
        self.assert_nothing_left()
        self.assertRegex(self.ddprun("resume", run).out(), r"resumed at step 7\n")
        return self.folder / run


for feature, row in FEATURES.items():
    setattr(Features, f"test_{feature}", lambda self, row=row: self.check(row))


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Runs on pretend GPUs (README.md) end as runs on the CPU do, bit for bit, and resume as they do.

What is compared has its numbers from the same kernels on both, so a difference comes from what surrounds them: streams, graphs, pinned memory,
NCCL. Hence no dropout, whose numbers each device draws from its own generator, one memory format for both, and learning rates that are powers of
two: on a GPU they are tensors of float32. Half precision, whose kernels differ, is compared with its own steps without graphs."""

import argparse
import json
import os
import signal
import unittest

import torch
from on_gpus import DIGITS, SECONDS, PretendGpuTest
from torch import nn

from command import NIGHTLY, all_rows, nightly
from eager import OwnTraining, Training
from export_model.__main__ import write_network

ONE_EPOCH = [*(word for word in DIGITS if not word.startswith("trainer.max_epochs")), "trainer.max_epochs=1", "dataset.train_size=1250"]
BLOCKS = ["model=wide_resnet", "model.depth=10", "model.widen_factor=1"]
BATCH_NORM = [*ONE_EPOCH, "model=convnet_bn"]


class Speaks(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Embedding(20, 16), nn.GELU(), nn.Linear(16, 20))

    def forward(self, symbols, labels=None):
        logits = self.body(symbols)
        return logits if labels is None else nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


class SameBits(PretendGpuTest):
    def assert_same_bits(self, *words, workers=1, files=("model",), schedule="async", on_gpu=()):
        words = [*words, f"launch.workers={workers}"]
        on_cpu = self.start(*words, "run.dir=cpu", "launch.device=cpu")
        self.on_gpus(*words, "run.dir=gpu", "launch.device=cuda", *on_gpu, env={"PRETEND_SCHEDULE": schedule})
        self.assertEqual(on_cpu.wait(SECONDS), 0, on_cpu.text())
        for name in files:
            self.assertEqual(self.kept("cpu", name), self.kept("gpu", name))
        self.assert_replayed("gpu")

    def test_mlp_with_all_that_surrounds_a_step_and_gpus_that_share_the_optimizer(self):
        self.assert_same_bits(*DIGITS, "model=mlp", "optimizer=adamw", f"optimizer.lr={2**-10}", "trainer.clip_norm=0.5", "trainer.micro_batch=16",
                              "trainer.ema_decay=0.9", workers=2, files=("model", "ema"), schedule="lazy", on_gpu=["trainer.shard_optimizer=true"])

    def test_mixed_samples_an_unfrozen_layer_a_callback_that_reads_and_an_optimizer_that_is_not_fused(self):
        """Muon's iterations are in bf16 on GPUs, unless it is asked otherwise."""
        self.assert_same_bits(*DIGITS, "dataset.train_size=1250", "model=mlp", "optimizer=muon", "optimizer.precision=fp32",
                              f"optimizer.lr={2**-6}", f"optimizer.others_lr={2**-6}", "trainer.mixup=0.2", f"+callbacks=[{os.environ['LOSS_READER']}]",
                              "+pretrained={freeze: ['hidden1.*'], unfreeze: {1ep: '*'}}", schedule="lazy")
        losses = [[line for line in (self.folder / run / "logs/rank_0.log").read_text().splitlines() if "loss_reader: " in line]
                  for run in ("cpu", "gpu")]
        self.assertEqual(len(losses[0]), 40)
        self.assertEqual(*losses)

    def test_batch_norm_and_sgd(self):
        self.assert_same_bits(*BATCH_NORM, "optimizer=sgd", "optimizer.momentum=0.9")

    def test_blocks_that_backward_computes_again_in_replayed_steps(self):
        self.assert_same_bits(*ONE_EPOCH, *BLOCKS, f"optimizer.lr={2**-6}", "trainer.ema_decay=0.9", workers=2, files=("model", "optimizer", "ema"),
                              schedule="lazy", on_gpu=["trainer.recompute=all"])

    def test_blocks_that_draw_random_numbers_draw_them_again_in_replayed_steps(self):
        words = [*ONE_EPOCH, *BLOCKS, "model.dropout=0.2", "launch.device=cuda", "launch.workers=1"]
        for run, recompute, graph in (("once", "off", "off"), ("again", "['block?.layer.*']", "on")):
            self.on_gpus(*words, f"run.dir={run}", f"trainer.recompute={recompute}", f"trainer.cuda_graph={graph}", env={"PRETEND_SCHEDULE": "lazy"})
        self.assertEqual(self.kept("once"), self.kept("again"))
        self.assert_replayed("again")

    def assert_replayed_shards_have_one_result(self, *words, sides):
        """Each side is (workers, device, trainer.cuda_graph)."""
        kept = set()
        for workers, device, graph in sides:
            run = f"{device}{workers}{graph}"
            self.on_gpus(*ONE_EPOCH, "trainer.max_steps=18", "trainer.shards=4", "trainer.ema_decay=0.9", "trainer.clip_norm=0.5", *words,
                         f"launch.workers={workers}", f"launch.device={device}", f"trainer.cuda_graph={graph}", f"run.dir={run}",
                         f"trainer.shard_optimizer={str(workers > 2).lower()}",
                         env={"PRETEND_SCHEDULE": "lazy"})
            if (device, graph) == ("cuda", "on"):
                self.assert_replayed(run)
            kept.add(tuple(self.kept(run, name) for name in ("model", "optimizer", "ema")))
        self.assertEqual(len(kept), 1)

    def test_shards_on_one_gpu_and_on_three_have_the_bits_of_the_cpu(self):
        self.assert_replayed_shards_have_one_result("model=convnet_bn", f"optimizer.lr={2**-6}",
                                                    sides=[(2, "cpu", "off"), (1, "cuda", "on"), (3, "cuda", "on")])

    def test_shards_that_draw_have_the_bits_of_steps_without_graphs(self):
        sides = [(1, "cuda", "off"), (3, "cuda", "on")]
        if NIGHTLY:
            sides += [(workers, "cuda", graph) for workers in (1, 2, 3, 4) for graph in ("on", "off")]
        for precision in ("fp32", "bf16") if NIGHTLY else ("fp32",):
            with self.subTest(precision):
                self.assert_replayed_shards_have_one_result("model=convnet", f"trainer.precision={precision}", "trainer.mixup=0.2", sides=sides)

    def test_shards_killed_at_a_replay_resume_with_the_same_bits_on_other_gpus(self):
        words = [*ONE_EPOCH, "model=convnet", "trainer.max_steps=18", "trainer.shards=4", "checkpoint.every=8st", "launch.device=cuda"]
        self.on_gpus(*words, "launch.workers=3", "run.dir=whole")
        killed = self.start_on_gpus(*words, "launch.workers=2", "run.dir=cut",
                                    env={"PRETEND_FAIL": "cudaGraphLaunch:4:kill", "PRETEND_FAIL_DEVICE": "1"})
        self.assertEqual(killed.wait(SECONDS), 128 + signal.SIGKILL, killed.text())
        self.on_gpus("resume", "cut", "launch.workers=1")
        self.assertEqual(self.kept("whole"), self.kept("cut"))

    @nightly
    def test_resnet(self):
        self.assert_same_bits(*DIGITS, "model=resnet", "dataset.train_size=60", "dataset.val_size=8", "dataset.test_size=8",
                              "trainer.global_batch=4", "trainer.max_epochs=1")

    def test_transformer(self):
        self.assert_same_bits("experiments/text.yaml", "model.layers=1", "model.width=16", "model.heads=2", "dataset.context=16", "~schedule",
                              f"optimizer.lr={2**-8}", "launch.threads=1", "trainer.max_steps=18", workers=2)

    def test_exported_network(self):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 10))
        training = Training(network, ["1x8x8"], self.folder)
        training.export(check=False)
        training.experiment()
        self.assert_same_bits("net.yaml", "launch.threads=1", "trainer.memory_format=channels_first")

    def test_exported_network_that_computes_its_loss(self):
        """Of labels, of which each batch has another number that counts."""
        words = ["12:int64:20", "labels=12:int64:20"]
        network = Speaks()
        settings = dict.fromkeys(("output", "target", "prediction", "weights"))
        write_network(network, argparse.Namespace(source="a test", loss=True, inputs=words, out=self.folder / "net.pt2", **settings))
        training = OwnTraining(network, words, "symbols", self.folder, "labels")
        for number, row in enumerate(training.target):
            row[1 + number % 11 :] = -100
        training.experiment()
        self.assert_same_bits("net.yaml", "launch.threads=1", workers=2, schedule="lazy")

    def test_killed_at_a_replay_it_resumes_with_the_same_bits(self):
        words = [*BATCH_NORM, "launch.workers=2", "checkpoint.every=8st", "launch.device=cuda"]
        self.on_gpus(*words, "run.dir=whole")
        self.assert_replayed("whole")
        killed = self.start_on_gpus(*words, "run.dir=cut", env={"PRETEND_FAIL": "cudaGraphLaunch:5:kill", "PRETEND_FAIL_DEVICE": "1"})
        self.assertEqual(killed.wait(SECONDS), 128 + signal.SIGKILL, killed.text())
        self.assertIn("rank 1 failed first: killed by SIGKILL", killed.err())
        self.assert_nothing_left()
        resumed = self.on_gpus("resume", "cut", "trainer.shard_optimizer=true")
        self.assertRegex(resumed.out(), r"resumed at step (8|16)\n")  # the last save may have been under way
        self.assertEqual(self.kept("whole"), self.kept("cut"))

    def test_half_precision_with_its_scaler_a_profile_and_histograms_has_the_bits_of_steps_without_graphs(self):
        """What is profiled or drawn is computed operator by operator, between replayed steps; the two GPUs share the optimizer, and draw the
        gradients of all. The first scale overflows."""
        for precision in ("fp16", "bf16", "bf16_master") if NIGHTLY else ("fp16", "bf16_master"):
            words = [*ONE_EPOCH, "model=mlp", "launch.device=cuda", "launch.workers=2", f"trainer.precision={precision}",
                     f"trainer.loss_scale={2.0**28}", "trainer.clip_norm=0.5"]  # fmt: skip
            self.on_gpus(*words, f"run.dir={precision}", "+profile={steps: 15..16}", "+histograms={every: 5st}", "trainer.shard_optimizer=true")
            self.on_gpus(*words, f"run.dir={precision}_plain", "trainer.cuda_graph=off")
            self.assert_replayed(precision)
            self.assertEqual(self.kept(precision), self.kept(f"{precision}_plain"))
            trace = json.loads((self.folder / precision / "profile/rank_0_steps_15_16.json").read_text())
            self.assertEqual(sum(event["name"] == "forward" for event in trace["traceEvents"] if event.get("cat") == "user_annotation"), 2)
        self.assertGreater(max(row.get("overflows", 0) for row in all_rows(self.folder / "fp16")), 0)

    def losses(self, name, *words):
        self.on_gpus(*ONE_EPOCH, "trainer.log_every=1", "trainer.max_steps=4", *words, f"run.dir={name}")
        return [row["loss"] for row in all_rows(self.folder / name) if row["split"] == "train"]

    def assert_near(self, losses, others):
        self.assertEqual(len(losses), len(others))
        for loss, other in zip(losses, others):
            self.assertAlmostEqual(loss, other, delta=1e-5 * max(1, other))

    @nightly
    def test_several_gpus_in_one_process_and_batch_norm_over_all_ranks_learn_as_one_gpu_does(self):
        for model, words in {"mlp": "trainer.strategy=dp", "convnet_bn": "trainer.sync_batchnorm=true"}.items():
            alone = self.losses(f"{model}_alone", f"model={model}", "launch.device=cuda", "launch.workers=1")
            self.assert_near(alone, self.losses(f"{model}_4", f"model={model}", "launch.device=cuda", words))

    def test_batch_norm_over_all_ranks_is_replayed_with_the_bits_of_ordinary_steps(self):
        for graph in ("on", "off"):
            self.on_gpus(*BATCH_NORM, "trainer.sync_batchnorm=true", "launch.device=cuda", "launch.workers=2", f"trainer.cuda_graph={graph}",
                         f"run.dir={graph}")
        self.assert_replayed("on")
        self.assertEqual(self.kept("on"), self.kept("off"))

    def test_ranks_of_unequal_parts_replay_whole_and_ragged_batches_together(self):
        """Of 32 samples, in parts of 5 or in 8 shards, and of 2, of which one of three ranks has none."""
        words = [*ONE_EPOCH, "model=convnet_bn", "trainer.max_epochs=16", "trainer.global_batch=32", "dataset.train_size=66",
                 "trainer.eval_every=never", "launch.device=cuda", "launch.workers=3"]  # fmt: skip
        for name, parts in (("passes", ["trainer.micro_batch=5", "trainer.broadcast_buffers=every_step"]), ("shards", ["trainer.shards=8"])):
            for graph in ("on", "off"):
                self.on_gpus(*words, *parts, f"trainer.cuda_graph={graph}", f"run.dir={name}_{graph}", env={"PRETEND_SCHEDULE": "lazy"})
            self.assert_replayed(f"{name}_on")
            self.assertEqual(self.kept(f"{name}_on"), self.kept(f"{name}_off"))

    @nightly
    def test_find_lr_draws_the_curve_of_the_cpu(self):
        words = [*ONE_EPOCH, "model=mlp", "--steps=30"]
        self.ddprun("find-lr", *words, "run.dir=cpu", "launch.device=cpu")
        self.on_gpus("find-lr", *words, "run.dir=gpu", "launch.device=cuda")
        self.assert_near(*([row["loss"] for row in all_rows(self.folder / run) if row["split"] == "train"] for run in ("cpu", "gpu")))


if __name__ == "__main__":
    unittest.main()

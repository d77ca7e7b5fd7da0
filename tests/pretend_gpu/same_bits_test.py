# SPDX-License-Identifier: MIT
"""Runs on pretend GPUs (README.md) end as runs on the CPU do, bit for bit, and resume as they do.

What is compared has its numbers from the same kernels on both, so a difference comes from what surrounds them: streams, graphs, pinned memory,
NCCL. Hence no dropout, whose numbers each device draws from its own generator, one memory format for both, and learning rates that are powers of
two: on a GPU they are tensors of float32. Half precision, whose kernels differ, is compared with its own steps without graphs."""

import json
import os
import re
import signal
import unittest

import torch
from on_gpus import DIGITS, SECONDS, PretendGpuTest, summary
from torch import nn

from command import NIGHTLY, all_rows
from eager import Training

ONE_EPOCH = [*(word for word in DIGITS if not word.startswith("trainer.max_epochs")), "trainer.max_epochs=1", "dataset.train_size=1250"]
BATCH_NORM = [*ONE_EPOCH, "model=convnet_bn"]


class SameBits(PretendGpuTest):
    def assert_same_bits(self, *words, workers=1, files=("model",), schedule="async", on_gpu=()):
        words = [*words, f"launch.workers={workers}"]
        on_cpu = self.start(*words, "run.dir=cpu", "launch.device=cpu")
        self.on_gpus(*words, "run.dir=gpu", "launch.device=cuda", *on_gpu, env={"PRETEND_SCHEDULE": schedule})
        self.assertEqual(on_cpu.wait(SECONDS), 0, on_cpu.text())
        for name in files:
            self.assertEqual(self.kept("cpu", name), self.kept("gpu", name))
        self.assert_replayed("gpu")

    def test_mlp_with_all_that_surrounds_a_step(self):
        self.assert_same_bits(*DIGITS, "model=mlp", "optimizer=adamw", f"optimizer.lr={2**-10}", "trainer.clip_norm=0.5", "trainer.micro_batch=16",
                              "trainer.ema_decay=0.9", workers=2, files=("model", "ema"), schedule="lazy")

    def test_mixed_samples_an_unfrozen_layer_a_callback_that_reads_and_an_optimizer_that_is_not_fused(self):
        loss_reader = os.environ["LOSS_READER"]
        self.assert_same_bits(*DIGITS, "dataset.train_size=1250", "model=mlp", "optimizer=muon", f"optimizer.lr={2**-6}", f"optimizer.others_lr={2**-6}",
                              "+pretrained={freeze: ['hidden.*'], unfreeze: {1ep: '*'}}", "trainer.mixup=0.2", f"+callbacks=[{loss_reader}]",
                              files=("model", "rank_0"), schedule="lazy")

    def test_batch_norm_and_sgd(self):
        self.assert_same_bits(*BATCH_NORM, "optimizer=sgd", "optimizer.momentum=0.9", workers=4 if NIGHTLY else 1)

    def test_resnet(self):
        self.assert_same_bits(*DIGITS, "model=resnet", "dataset.train_size=60", "dataset.val_size=8", "dataset.test_size=8",
                              "trainer.global_batch=4", "trainer.max_epochs=1")

    def test_transformer(self):
        self.assert_same_bits("experiments/text.yaml", "model.layers=1", "model.width=16", "model.heads=2", "dataset.context=16", "~schedule",
                              f"optimizer.lr={2**-8}", "launch.threads=1", "trainer.max_steps=18", workers=4)

    def test_exported_network(self):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 10))
        training = Training(network, ["1x8x8"], self.folder)
        training.export(check=False)
        training.experiment()
        self.assert_same_bits("net.yaml", "launch.threads=1", "trainer.memory_format=channels_first")

    def test_killed_at_a_replay_it_resumes_with_the_same_bits(self):
        words = [*BATCH_NORM, "launch.workers=2", "checkpoint.every=8st", "launch.device=cuda"]
        self.on_gpus(*words, "run.dir=whole")
        self.assert_replayed("whole")
        killed = self.start_on_gpus(*words, "run.dir=cut", env={"PRETEND_FAIL": "cudaGraphLaunch:5:kill", "PRETEND_FAIL_DEVICE": "1"})
        self.assertEqual(killed.wait(SECONDS), 128 + signal.SIGKILL, killed.text())
        self.assertIn("rank 1 failed first: killed by SIGKILL", killed.err())
        self.assert_nothing_left()
        resumed = self.on_gpus("resume", "cut")
        self.assertRegex(resumed.out(), r"resumed at step (8|16)\n")  # the last save may have been under way
        self.assertEqual(self.kept("whole"), self.kept("cut"))

    def test_half_precision_with_its_scaler_a_profile_and_histograms_has_the_bits_of_steps_without_graphs(self):
        """What is profiled or drawn is computed operator by operator, between replayed steps. The first scale overflows."""
        for precision in ("fp16", "bf16"):
            words = [*ONE_EPOCH, "model=mlp", "launch.device=cuda", f"trainer.precision={precision}", f"trainer.loss_scale={2.0**28}"]
            self.on_gpus(*words, f"run.dir={precision}", "+profile={steps: 15..16}", "+histograms={every: 5st}")
            self.on_gpus(*words, f"run.dir={precision}_plain", "trainer.cuda_graph=off")
            self.assert_replayed(precision)
            self.assertEqual(self.kept(precision), self.kept(f"{precision}_plain"))
            trace = json.loads((self.folder / precision / "profile/rank_0_steps_15_16.json").read_text())
            self.assertEqual(sum(event["name"] == "forward" for event in trace["traceEvents"] if event.get("cat") == "user_annotation"), 2)
        self.assertGreater(summary(self.folder / "fp16")["skipped_steps"], 0)

    def test_several_gpus_in_one_process_and_batch_norm_over_all_ranks_learn_as_one_does(self):
        losses = {}
        for name, words in {"alone": [], "dp": ["trainer.strategy=dp"], "synced": ["launch.workers=2", "trainer.sync_batchnorm=true"]}.items():
            model = "mlp" if name == "dp" else "convnet_bn"
            self.on_gpus(*ONE_EPOCH, f"model={model}", "launch.device=cuda", "trainer.log_every=1", *words, f"run.dir={name}")
            losses[name] = [row["loss"] for row in all_rows(self.folder / name) if row["split"] == "train"]
        print(losses)

    def test_find_lr_draws_the_curve_of_the_cpu(self):
        words = ["find-lr", *ONE_EPOCH, "model=mlp", "--steps=30"]
        self.start(*words, "run.dir=cpu", "launch.device=cpu").wait(SECONDS)
        self.on_gpus(*words, "run.dir=gpu", "launch.device=cuda")
        curves = [[(row["lr"], row["loss"]) for row in all_rows(self.folder / run) if row["split"] == "train"] for run in ("cpu", "gpu")]
        print(curves)


if __name__ == "__main__":
    unittest.main()

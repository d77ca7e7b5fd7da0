# SPDX-License-Identifier: MIT
"""Runs on pretend GPUs (README.md) end as runs on the CPU do, bit for bit, and resume as they do.

What is compared has its numbers from the same kernels on both, so a difference comes from what surrounds them: streams, graphs, pinned memory,
NCCL. Hence no dropout, whose numbers each device draws from its own generator, one memory format for both, and learning rates that are powers of
two: on a GPU they are tensors of float32."""

import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from command import DDPRUN, NIGHTLY, SMALL, CommandTest, is_whole, summary  # noqa: E402
from eager import Training  # noqa: E402

RUN = pathlib.Path(__file__).resolve().parent / "run"
SECONDS = 900  # of a machine that is busy with other tests
# Epochs of nine whole batches and a ragged one: the whole ones are replayed from the 14th on.
DIGITS = [*(word for word in SMALL if not word.startswith(("launch.device", "trainer.max_epochs"))), "trainer.max_epochs=2",
          "trainer.memory_format=channels_first", "trainer.log_every=20"]
BATCH_NORM = [*DIGITS, "model=convnet_bn", "dataset.train_size=1250", "trainer.max_epochs=1"]
REPLAYED = "replayed"


class PretendGpu(CommandTest):
    def start_on_gpus(self, *words, env=None):
        settings = {name: value for name, value in os.environ.items() if name == "PRETEND_LIBRARIES"}
        return self.start_program(RUN, DDPRUN, *words, env=settings | {"PRETEND_POISON": "2", "PRETEND_GPUS": "4"} | (env or {}))

    def on_gpus(self, *words, env=None, code=0):
        running = self.start_on_gpus(*words, env=env)
        self.assertEqual(running.wait(SECONDS), code, running.text())
        self.assertNotIn("not pretended", running.err())
        return running

    def weights(self, run, name="model"):
        checkpoint = self.folder / run / "checkpoints/last"
        self.assertTrue(is_whole(checkpoint))
        return (checkpoint / f"{name}.safetensors").read_bytes()

    def assert_same_bits(self, *words, workers=1, names=("model",), graph=REPLAYED, schedule="async"):
        words = [*words, f"launch.workers={workers}"]
        on_cpu = self.start(*words, "run.dir=cpu", "launch.device=cpu")
        self.on_gpus(*words, "run.dir=gpu", "launch.device=cuda", env={"PRETEND_SCHEDULE": schedule})
        self.assertEqual(on_cpu.wait(SECONDS), 0, on_cpu.text())
        for name in names:
            self.assertEqual(self.weights("cpu", name), self.weights("gpu", name))
        self.assertEqual(summary(self.folder / "gpu")["cuda_graph"], graph)

    def test_mlp_with_all_that_surrounds_a_step(self):
        self.assert_same_bits(*DIGITS, "model=mlp", "optimizer=adamw", f"optimizer.lr={2**-10}", "trainer.clip_norm=0.5", "trainer.micro_batch=16",
                              "trainer.ema_decay=0.9", workers=2, names=("model", "ema"), schedule="lazy")

    def test_batch_norm_and_sgd(self):
        self.assert_same_bits(*BATCH_NORM, "optimizer=sgd", "optimizer.momentum=0.9", workers=4 if NIGHTLY else 1)

    def test_resnet(self):
        self.assert_same_bits(*DIGITS, "model=resnet", "dataset.train_size=60", "dataset.val_size=8", "dataset.test_size=8",
                              "trainer.global_batch=4", "trainer.max_epochs=1")

    def test_transformer(self):
        self.assert_same_bits("experiments/text.yaml", "model.layers=1", "model.width=16", "model.heads=2", "dataset.context=16", "~schedule",
                              f"optimizer.lr={2**-8}", "launch.threads=1", "trainer.max_steps=18", workers=4 if NIGHTLY else 2)

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
        self.assertEqual(summary(self.folder / "whole")["cuda_graph"], REPLAYED)
        killed = self.start_on_gpus(*words, "run.dir=cut", env={"PRETEND_FAIL": "cudaGraphLaunch:5:kill", "PRETEND_FAIL_DEVICE": "1"})
        self.assertEqual(killed.wait(SECONDS), 128 + signal.SIGKILL, killed.text())
        self.assertIn("rank 1 failed first: killed by SIGKILL", killed.err())
        self.assert_nothing_left()
        resumed = self.on_gpus("resume", "cut")
        self.assertRegex(resumed.out(), r"resumed at step (8|16)\n")  # the last save may have been under way
        self.assertEqual(self.weights("whole"), self.weights("cut"))


if __name__ == "__main__":
    unittest.main()

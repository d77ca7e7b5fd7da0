# SPDX-License-Identifier: MIT
"""What tests share that run ddprun on pretend GPUs (README.md)."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/end_to_end"))

from command import DDPRUN, SMALL, CommandTest, is_whole, summary  # noqa: E402

RUN = ROOT / "tests/pretend_gpu/run"
SECONDS = 900  # of a machine that is busy with other tests
# Epochs of nine whole batches and a ragged one: the whole ones are replayed from the 14th on.
DIGITS = [*(word for word in SMALL if not word.startswith("launch.device")), "trainer.memory_format=channels_first", "trainer.log_every=20"]


class PretendGpuTest(CommandTest):
    def start_on_gpus(self, *words, env=None):
        settings = {"PRETEND_LIBRARIES": os.environ["PRETEND_LIBRARIES"], "PRETEND_POISON": "2", "PRETEND_GPUS": "4"}
        return self.start_program(RUN, DDPRUN, *words, env=settings | (env or {}))

    def on_gpus(self, *words, env=None, code=0):
        running = self.start_on_gpus(*words, env=env)
        self.assertEqual(running.wait(SECONDS), code, running.text())
        self.assertNotIn("not pretended", running.err())
        return running

    def kept(self, run, name="model"):
        """A file of the last checkpoint."""
        checkpoint = self.folder / run / "checkpoints/last"
        self.assertTrue(is_whole(checkpoint))
        return (checkpoint / f"{name}.safetensors").read_bytes()

    def assert_replayed(self, run):
        self.assertEqual(summary(self.folder / run)["cuda_graph"], "replayed")

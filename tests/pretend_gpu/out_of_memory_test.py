# SPDX-License-Identifier: MIT
"""A GPU whose memory is too small for a run ends it, wherever that happens, with what to change; and the change helps."""

import re
import unittest

from on_gpus import DIGITS, PretendGpuTest

WORDS = [*DIGITS, "model=convnet", "trainer.max_steps=2", "launch.device=cuda", "trainer.log_every=1"]
MANY = ["trainer.global_batch=600", "trainer.eval_batch=8"]


class OutOfMemory(PretendGpuTest):
    def on_a_gpu_of(self, mib, *words, code=0):
        return self.on_gpus(*WORDS, *words, env={"PRETEND_MEMORY_MIB": str(mib), "PRETEND_GPUS": "1"}, code=code)

    def assert_told(self, where, advice, *words, mib=48):
        told = self.on_a_gpu_of(mib, *words, code=1).err()
        self.assertIn(f"rank 0 failed: out of memory {where}: CUDA out of memory. Tried to allocate ", told)
        self.assertIn(f"\nTry {advice}", told)

    def test_each_place_has_its_own_advice(self):
        self.assert_told("while starting", "a smaller model, or a device with more free memory", mib=2)
        self.assert_told("evaluating the split val", "trainer.eval_batch=150 (", "trainer.eval_batch=300", "trainer.global_batch=8")
        self.assert_told("in step 1", "trainer.micro_batch=auto (", *MANY)

    def test_micro_batches_that_were_found_train_as_those_that_are_named(self):
        found = self.on_a_gpu_of(48, *MANY, "trainer.micro_batch=auto", "run.dir=found")
        samples = re.search(r"auto found (\d+) samples of a worker's 600", found.out() + found.err())[1]
        self.on_a_gpu_of(2048, *MANY, f"trainer.micro_batch={samples}", "run.dir=named")
        self.assertEqual(self.kept("found"), self.kept("named"))


if __name__ == "__main__":
    unittest.main()

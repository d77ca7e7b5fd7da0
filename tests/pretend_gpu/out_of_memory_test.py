# SPDX-License-Identifier: MIT
"""A GPU whose memory is too small for a run ends it, wherever that happens, with what to change; and that helps."""

import unittest

from on_gpus import DIGITS, PretendGpuTest, summary

WIDE = [*DIGITS, "model=mlp", "model.hidden=256", "launch.device=cuda", "trainer.max_steps=4", "trainer.max_epochs=100"]


class OutOfMemory(PretendGpuTest):
    def told(self, *words, mib, code=1):
        return self.on_gpus(*WIDE, *words, env={"PRETEND_MEMORY_MIB": str(mib), "PRETEND_GPUS": "1"}, code=code).err()

    def test_at_the_start(self):
        print(self.told("model.hidden=100000", mib=64))

    def test_in_an_evaluation(self):
        print(self.told("trainer.eval_batch=300", "model.hidden=20000", "trainer.global_batch=2", mib=32))

    def test_in_a_step_and_micro_batches_that_fit_train_as_the_whole_would(self):
        print(self.told("model.hidden=20000", "trainer.global_batch=600", "trainer.eval_batch=2", mib=64))
        print(self.told("model.hidden=20000", "trainer.global_batch=600", "trainer.eval_batch=2", "trainer.micro_batch=auto", mib=64, code=0))


if __name__ == "__main__":
    unittest.main()

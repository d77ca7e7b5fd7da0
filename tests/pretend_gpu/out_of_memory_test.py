# SPDX-License-Identifier: MIT
"""A GPU whose memory is too small for a run ends it, wherever that happens, with what to change; and the change helps."""

import re
import unittest

from on_gpus import DIGITS, PretendGpuTest

WORDS = [*DIGITS, "model=convnet", "trainer.max_steps=2", "launch.device=cuda", "trainer.log_every=1"]
MANY = ["trainer.global_batch=600", "trainer.eval_batch=8"]
# Five million numbers, whose state AdamW needs 38 MB for.
MANY_WEIGHTS = ["experiments/text.yaml", "optimizer=adamw", "model.layers=6", "model.width=256", "model.heads=4", "dataset.context=16",
                "trainer.global_batch=4", "trainer.max_steps=3", "trainer.limit_val_batches=1", "trainer.limit_test_batches=1", "~schedule",
                "~early_stopping", "launch.device=cuda", "launch.workers=2", "launch.threads=1"]  # fmt: skip


class OutOfMemory(PretendGpuTest):
    def on_a_gpu_of(self, mib, *words, code=0):
        return self.on_gpus(*WORDS, *words, env={"PRETEND_MEMORY_MIB": str(mib), "PRETEND_GPUS": "1"}, code=code)

    def assert_reported(self, where, advice, *words, mib=48):
        reported = self.on_a_gpu_of(mib, *words, code=1).err()
        self.assertIn(f"rank 0 failed: out of memory {where}: CUDA out of memory. Tried to allocate ", reported)
        self.assertIn(f"\nTry {advice}", reported)

    def test_each_place_has_its_own_advice(self):
        self.assert_reported("while starting", "a smaller model, or a device with more free memory", mib=2)
        self.assert_reported("evaluating the split val", "trainer.eval_batch=150 (", "trainer.eval_batch=300", "trainer.global_batch=8")
        self.assert_reported("in step 1", "trainer.micro_batch=auto (", *MANY)

    def test_micro_batches_that_were_found_train_as_those_that_are_named(self):
        found = self.on_a_gpu_of(48, *MANY, "trainer.micro_batch=auto", "run.dir=found")
        samples = re.search(r"auto found (\d+) samples of a worker's 600", found.out() + found.err())[1]
        self.on_a_gpu_of(2048, *MANY, f"trainer.micro_batch={samples}", "run.dir=named")
        self.assertEqual(self.kept("found"), self.kept("named"))

    def test_workers_that_share_the_optimizer_train_where_it_did_not_fit(self):
        memory = {"PRETEND_MEMORY_MIB": "96"}
        reported = self.on_gpus(*MANY_WEIGHTS, "run.dir=whole", env=memory, code=1).err()
        self.assertRegex(reported, r"out of memory in step \d: CUDA out of memory")
        self.assertIn("trainer.shard_optimizer=true (the same results; ", reported)
        self.on_gpus(*MANY_WEIGHTS, "run.dir=shared", "trainer.shard_optimizer=true", env=memory)

    def test_blocks_that_backward_computes_again_fit_where_they_did_not(self):
        words = [*MANY_WEIGHTS, "dataset.context=128", "trainer.global_batch=24", "launch.workers=1"]
        memory = {"PRETEND_MEMORY_MIB": "400"}
        reported = self.on_gpus(*words, "run.dir=kept", env=memory, code=1).err()
        self.assertRegex(reported, r"out of memory in step \d: CUDA out of memory.*\nBesides activations, a worker holds \d+ MB: weights \d+ MB, gradients ")
        self.assertIn("trainer.recompute=all (the same results; ", reported)
        self.on_gpus(*words, "run.dir=again", "trainer.recompute=all", env=memory)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Each fast path is switched off by one key, and changes no number: to the bit, or in rounding where it sums in another order."""

import unittest

import torch

from command import SMALL, CommandTest, all_rows

WORDS = [*SMALL, "model=convnet_bn", "optimizer.lr=0.005", "trainer.max_epochs=2", "trainer.log_every=1", "launch.workers=2"]


class FastPaths(CommandTest):
    def losses(self, name, *words):
        self.ddprun(*WORDS, *words, f"run.dir={name}")
        return [row["loss"] for row in all_rows(self.folder / name)]

    def weights(self, name):
        return (self.folder / name / "checkpoints/last/model.safetensors").read_bytes()

    def test_batches_in_one_pass_and_statistics_before_evaluations_change_no_bit(self):
        layout = "trainer.memory_format=channels_last"
        fast = self.losses("fast", layout)
        self.assertGreater(len(fast), 20)
        for key in ("dataset.resident=host", "dataset.resident=off", "trainer.broadcast_buffers=every_step"):
            with self.subTest(key):
                self.assertEqual(self.losses(key, layout, key), fast)
                self.assertEqual(self.weights(key), self.weights("fast"))

    def test_the_order_of_images_in_memory_changes_the_rounding_alone(self):
        first = torch.tensor(self.losses("first", "trainer.memory_format=channels_first"))
        last = torch.tensor(self.losses("last", "trainer.memory_format=channels_last"))
        torch.testing.assert_close(last, first, rtol=2e-3, atol=2e-3)

    def test_layers_in_one_pass_change_the_rounding_alone(self):
        layout = "trainer.memory_format=channels_last"
        fused = torch.tensor(self.losses("fused", layout))
        apart = torch.tensor(self.losses("apart", layout, "trainer.fused_layers=false"))
        self.assertFalse(fused.equal(apart), "the key changes nothing")
        torch.testing.assert_close(fused, apart, rtol=2e-3, atol=2e-3)


if __name__ == "__main__":
    unittest.main()

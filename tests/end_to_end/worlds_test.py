# SPDX-License-Identifier: MIT
"""The number of workers changes the speed and nothing else."""

import unittest

import torch

import weights
from command import SMALL, CommandTest, results, summary

# 610 samples in batches of 96: the last of each epoch is of 34, which neither 3 nor 4 workers share evenly. Of 150,000 inputs of
# ReLUs one may lie so near to 0 that rounding switches it, which moves weights by 1e-3: with seed 42 so on one kind of processor.
WORDS = [*SMALL, "seed=1", "model=mlp", "model.hidden=32", "trainer.global_batch=96", "trainer.max_epochs=100", "trainer.max_steps=50"]


class Worlds(CommandTest):
    def train(self, workers, *words):
        run = self.folder / f"run{workers}{''.join(words)}"
        self.ddprun(*WORDS, f"launch.workers={workers}", f"run.dir={run}", *words)
        return run

    def distance(self, run, other):
        """The largest difference of a parameter, relative to the largest parameter of its tensor."""
        mine, others = (weights.load(path / "checkpoints/last/model.safetensors") for path in (run, other))
        self.assertEqual(mine.keys(), others.keys())
        return max(float((mine[name] - others[name]).abs().max() / others[name].abs().max()) for name in mine)

    def test_one_to_four_workers_train_the_same_within_rounding(self):
        alone = self.train(1)
        self.assertEqual(summary(alone)["samples"], 7 * 610 + 96)
        for workers in (2, 3, 4):
            with self.subTest(workers=workers):
                run = self.train(workers)
                self.assertEqual(summary(run)["samples"], summary(alone)["samples"])
                self.assertLess(self.distance(run, alone), 1e-5)
                for key, row in results(alone).items():
                    self.assertAlmostEqual(results(run)[key]["loss"], row["loss"], delta=1e-4)
        # A batch that differs in one sample of a hundred moves the weights by far more than rounding does.
        self.assertGreater(self.distance(self.train(1, "trainer.global_batch=95"), alone), 1e-3)

    def test_one_checkpoint_has_one_test_result(self):
        for model in ("mlp", "convnet_bn"):  # without and with statistics that each rank gathers on its own
            with self.subTest(model=model):
                run = self.folder / model
                self.ddprun(*SMALL, f"model={model}", "optimizer.lr=0.005", "trainer.max_epochs=4", "dataset.test_size=1001",
                            "launch.workers=2", f"run.dir={run}")
                trained = summary(run)
                self.assertTrue(150 < trained["test_correct"] < 1000, "no good measure of sameness")
                self.assertEqual(trained["test_total"], 1001)
                for workers in (1, 2, 3):
                    self.ddprun("resume", run, f"launch.workers={workers}")
                    tested = summary(run)
                    self.assertEqual(tested["world_size"], workers)
                    self.assertEqual((tested["test_correct"], tested["test_total"]), (trained["test_correct"], 1001))
                    self.assertAlmostEqual(tested["metrics"]["test/loss"], trained["metrics"]["test/loss"], places=5)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()

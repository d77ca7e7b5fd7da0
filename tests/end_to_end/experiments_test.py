# SPDX-License-Identifier: MIT
"""Every experiment that we ship runs with two workers, for a few steps, on real data where they are to be had."""

import os
import pathlib
import unittest

from command import CommandTest, all_rows, csv_rows, nightly, summary

DATA = pathlib.Path(os.environ.get("DDPRUN_DATA", "nowhere"))
# The guides' fp16 needs a GPU. bf16, in its place, is ten times slower than fp32 on many processors: one of them has it.
CIFAR = [f"dataset.root={DATA}/cifar100-subset", "trainer.global_batch=32", "trainer.precision=fp32"]
SHORT = ["trainer.max_steps=3", "trainer.log_every=1", "trainer.limit_val_batches=2", "trainer.eval_batch=32",
         "launch.workers=2", "launch.device=cpu", "launch.threads=1", "dataset.validation=64"]


class Experiments(CommandTest):
    def run_short(self, experiment, *words):
        # A dev run tests on one batch: the whole test set would take minutes.
        run = self.train(experiment, f"experiments/{experiment}.yaml", *SHORT, "trainer.fast_dev_run=true", *words,
                         env={"DDPRUN_DATA": str(DATA)}, seconds=240)
        rows = all_rows(run)
        self.assertEqual({row["split"] for row in rows}, {"train", "epoch", "val", "test"})
        self.assertTrue(all(row["loss"] > 0 for row in rows))
        self.assertEqual(summary(run)["status"], "completed")
        return run

    @unittest.skipUnless((DATA / "mnist").is_dir(), "DDPRUN_DATA/mnist is not there")
    def test_mnist_flyte_with_its_table_of_predictions(self):
        run = self.run_short("mnist_flyte", "predictions.num_batches_to_log=2", "predictions.log_images_per_batch=5")
        (table,) = (run / "predictions").glob("step_*.csv")
        self.assertEqual(len(table.read_text().splitlines()), 1 + 2 * 5)

    @unittest.skipUnless((DATA / "cifar100-subset").is_dir(), "DDPRUN_DATA/cifar100-subset is not there")
    def test_those_of_cifar(self):
        for name, *words in (["cifar100_olivia", "model.widen_factor=1"], ["cifar10_resnet18", "dataset.plugin=cifar100"]):
            with self.subTest(experiment=name):
                self.run_short(name, *CIFAR, *words)

    @nightly
    def test_a_regression_comes_near_to_its_noise_and_its_predictions_have_the_error_of_the_test(self):
        running = self.ddprun("experiments/regression.yaml", "launch.workers=2", "launch.device=cpu", "launch.threads=1",
                              "trainer.max_epochs=12", "run.dir=run")
        error = summary(self.folder / "run")["metrics"]["test/loss"]
        self.assertTrue(1 < error < 2, error)  # 1 is the noise; a linear model has 6.9
        self.assertRegex(running.out(), r"\n *test, last +epoch 12[^:]*: test/loss 1\.\d+ +test/mae 0\.\d+\n")
        self.ddprun("predict", "run", "--out", "p.csv", "launch.device=cpu")
        rows = csv_rows(self.folder / "p.csv")
        self.assertEqual(list(rows[0]), ["index", "truth_0", "prediction_0"])
        squares = [(float(row["truth_0"]) - float(row["prediction_0"])) ** 2 for row in rows]
        self.assertAlmostEqual(sum(squares) / len(squares), error, places=4)

    def test_every_experiment_passes_its_check(self):
        shipped = pathlib.Path(os.environ["DDPRUN"]).resolve().parent.parent / "share/ddprun/configs/experiments"
        experiments = sorted(path.name for path in shipped.glob("*.yaml"))
        self.assertGreaterEqual(len(experiments), 8, experiments)
        for name in experiments:
            with self.subTest(experiment=name):
                words = ["trainer.precision=bf16"] if name.startswith("cifar") else []  # fp16 needs a GPU, and says so
                words += ["dataset.root=photos", "--no-data"] if name == "imagenet_folder.yaml" else []
                self.ddprun("check", f"experiments/{name}", "launch.device=cpu", *words)

    def test_the_guides_fp16_says_on_a_cpu_what_to_use_instead(self):
        message = self.assert_refused("experiments/cifar100_olivia.yaml", "launch.device=cpu")
        self.assertIn("trainer.precision: fp16 needs a GPU", message)
        self.assertIn("bf16", message)


if __name__ == "__main__":
    unittest.main()

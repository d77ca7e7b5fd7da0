# SPDX-License-Identifier: MIT
"""Losses written in Python, exported with tools/export_model --loss and trained on by the command, beside Python."""

import csv
import pathlib
import unittest

import torch

from command import CommandTest
from eager import BATCH, STEPS, Training, losses_of, unequal, weights_of
from export_tool import ExportTool
from exported_networks import NETWORKS
from exported_test import WithoutNoise

LOSSES = """
import torch
from torch.nn import functional

CALLS = 0


def focal(prediction, target, gamma=2.0):
    own = functional.cross_entropy(prediction, target, reduction="none")
    return {"loss": ((1 - torch.exp(-own)) ** gamma * own).mean(), "accuracy": (prediction.argmax(1) == target).float().mean()}


class Weighted(torch.nn.Module):
    def __init__(self, first=2.0):
        super().__init__()
        self.register_buffer("weights", torch.tensor([first, 1, 1, 1, 1]))

    def forward(self, prediction, target):
        return functional.cross_entropy(prediction, target, reduction="none").mul(self.weights[target]).mean()


def plain(prediction, target):
    return functional.cross_entropy(prediction, target)


def small_masks(prediction, target):
    return functional.cross_entropy(functional.interpolate(prediction, scale_factor=2.0), target)


def ctc(prediction, target):
    times = torch.full((prediction.shape[0],), prediction.shape[1])
    return functional.ctc_loss(prediction.log_softmax(2).transpose(0, 1), target, times, (target > 0).sum(1), zero_infinity=True)


def summed(prediction, target):
    return functional.cross_entropy(prediction, target, reduction="sum")


def vector(prediction, target):
    return functional.cross_entropy(prediction, target, reduction="none")


def detached(prediction, target):
    return functional.cross_entropy(prediction.detach(), target)


def alone(prediction):
    return prediction.mean()


def counting(prediction, target):
    global CALLS
    CALLS += 1
    return functional.cross_entropy(prediction, target)


class Learnt(Weighted):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
"""


class ExportedLoss(ExportTool, CommandTest):
    def setUp(self):
        super().setUp()
        self.losses = self.written_module("losses", LOSSES)

    def export(self, name, *words, prediction="prediction=10", target="target=:int64:10", code=0):
        """Returns what the tool says."""
        inputs = ["--input", prediction, "--input", target]
        return self.run_export(f"losses.py:{name}", "--loss", *inputs, *words, "--out", "loss.pt2", code=code)

    def training(self, network, make=None, **options):
        """Of a network of exported_networks.py, or of this one with its inputs; it is in net.pt2."""
        usual, inputs = NETWORKS[network]
        torch.manual_seed(0)
        training = Training((make or usual)(), inputs, self.folder, **options)
        training.export(check=False)
        return training

    def assert_pythons(self, training, run="run"):
        self.assertEqual(losses_of(self.folder / run), training.in_python())
        self.assertEqual(unequal(training.module, weights_of(self.folder / run)), [])

    def train(self, training, *words, run="run", **options):
        training.experiment()
        return self.ddprun("net.yaml", f"run.dir={run}", "objective={name: exported, file: loss.pt2}", *words, **options)

    def test_every_bit_is_pythons(self):
        self.assertIn("a loss with the metrics accuracy; checked against the function", self.export("focal", "--set", "gamma=3.0"))
        training = self.training("images", loss=lambda *given: self.losses.focal(*given, gamma=3.0)["loss"])
        self.train(training, "loggers=[jsonl, csv]")
        self.assert_pythons(training)
        with open("run/metrics.csv") as file:
            shares = [float(row["accuracy"]) * BATCH for row in csv.DictReader(file) if row["split"] == "train"]
        self.assertEqual(len(shares), STEPS)
        self.assertEqual([share for share in shares if share != round(share) or not 0 <= share <= BATCH], [])

    def test_a_modules_buffers_and_logits_of_another_size_than_the_masks(self):
        self.export("Weighted", "--set", "first=3.0", prediction="prediction=5x6+x6+", target="target=6+x6+:int64:5")
        training = self.training("segments", loss=self.losses.Weighted(3.0))
        self.train(training)
        self.assert_pythons(training)
        self.export("small_masks", prediction="prediction=5x12x12", target="target=24x24:int64:5")
        training = self.training("segments", loss=self.losses.small_masks)
        training.target = training.target.repeat_interleave(2, 1).repeat_interleave(2, 2)
        self.train(training, run="small")
        self.assert_pythons(training, "small")

    def test_metrics_of_classes_are_those_of_cross_entropy(self):
        self.export("plain")
        training = self.training("images")
        for objective in ("cross_entropy", "exported, file: loss.pt2"):
            training.experiment()
            self.ddprun("net.yaml", f"run.dir={objective[:5]}", f"objective={{name: {objective}, metrics: [f1, auroc, confusion]}}",
                        "dataset.val=data.safetensors", "loggers=[csv]")  # fmt: skip
        rows = []
        for run in ("cross", "expor"):
            with open(f"{run}/metrics.csv") as file:
                rows.append([{name: row[name] for name in ("loss", "f1", "auroc")} for row in csv.DictReader(file) if row["split"] == "val"])
        self.assertEqual(*rows)
        self.assertGreater(float(rows[0][-1]["auroc"]), 0)
        said = self.ddprun("check", "net.yaml", "objective={name: exported, file: loss.pt2, metrics: [f2]}", code=2).err()
        self.assertIn('has no metric "f2"; did you mean f1?', said)

    def test_ctc_of_targets_of_several_lengths(self):
        self.export("ctc", prediction="prediction=12x20", target="target=4:int64:20")
        training = self.training("recurrent", loss=self.losses.ctc)
        training.target = training.target[:, :4].sort(1, descending=True)[0]  # 0 is blank, and pads
        training.target[::3, 2:] = 0
        training.of_pixels = True  # the loss takes [B, T, classes] as they are
        self.train(training)
        self.assert_pythons(training)

    def test_several_workers_train_the_same(self):
        self.export("focal")
        training = self.training("images", WithoutNoise, batch=12, steps=6)
        found = []
        for workers in (1, 2, 3):
            self.train(training, f"launch.workers={workers}", "trainer.sync_batchnorm=true", run=f"run{workers}")
            found.append(losses_of(self.folder / f"run{workers}"))
        for losses in found[1:]:
            torch.testing.assert_close(torch.tensor(losses), torch.tensor(found[0]), rtol=0, atol=1e-5)

    def test_what_is_no_loss_is_refused_by_name(self):
        self.assert_each_refused({
            "vector": "the loss gives [4] as loss: expected a tensor of one number, the mean over the batch",
            "detached": "the loss does not depend on the prediction",
            "alone": "losses.py:alone takes prediction: expected a loss of two",
            "counting": "forward() changes the global CALLS",
            "Learnt": "losses.py:Learnt has weights of its own, which are trained with those of a network: export that with --loss",
        })  # fmt: skip
        self.assertIn("loss is taken for a mean over samples, and that of a batch is not the mean", self.export("summed"))

    def test_a_file_or_a_shape_that_does_not_fit_names_both_sides(self):
        training = self.training("images")
        pathlib.Path("loss.pt2").write_bytes(pathlib.Path("net.pt2").read_bytes())
        self.assertIn("loss.pt2: it is a network (model=exported): expected a loss", self.train(training, code=2).err())
        self.export("focal", prediction="prediction=7", target="target=:int64:7")
        said = self.ddprun("check", "net.yaml", "objective={name: exported, file: loss.pt2}", code=2).err()
        self.assertIn("loss.pt2 takes [*, 7] Float as prediction; it is given [4, 10] Float", said)
        said = self.ddprun("check", "net.yaml", "model.file=loss.pt2", code=2).err()
        self.assertIn("it is a loss (objective.name=exported): expected a network", said)


if __name__ == "__main__":
    unittest.main()

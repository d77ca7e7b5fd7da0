# SPDX-License-Identifier: MIT
"""Networks that compute their loss, exported with tools/export_model --loss and trained by the command, beside Python."""

import json
import pathlib
import unittest

import torch

from command import CommandTest, csv_rows
from eager import OwnTraining, losses_of, weights_of
from export_tool import ExportTool

IGNORED, STEPS, BATCH = -100, 12, 6
FILE = """
import torch
from torch import nn
from torch.nn import functional


class TwoTasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1))
        self.kind, self.size = nn.Linear(16, 5), nn.Linear(16, 1)

    def forward(self, images):
        found = self.body(images)
        return {"kind": self.kind(found), "size": self.size(found).squeeze(1)}


class Joint(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = nn.Parameter(torch.zeros(2))

    def forward(self, outputs, target, size):
        kind, size = functional.cross_entropy(outputs["kind"], target), functional.mse_loss(outputs["size"], size)
        loss = kind * torch.exp(-self.scales[0]) + size * torch.exp(-self.scales[1]) + self.scales.sum()
        return {"loss": loss, "size": size, "accuracy": (outputs["kind"].argmax(1) == target).float().mean()}


class Words(nn.Module):
    '''As in transformers: with labels it gives the loss, too, and a word is predicted from those before it.'''

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(20, 16), nn.Linear(16, 20)

    def forward(self, symbols, labels=None):
        logits = self.head(self.words(symbols).cumsum(1))
        if labels is None:
            return {"logits": logits}
        guess, truth = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        counts = truth != -100
        right = ((guess.argmax(1) == truth) & counts).sum() / counts.sum()
        return {"loss": functional.cross_entropy(guess, truth), "logits": logits, "right": right}


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)

    def forward(self, x):
        noise = torch.randn_like(x)
        return functional.mse_loss(self.body(x + noise), noise)


class NoLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 5)

    def forward(self, x, target):
        return {"logits": self.body(x), "loss": functional.cross_entropy(self.body(x), target, reduction="none")}


class Summed(NoLoss):
    def forward(self, x, target):
        return functional.cross_entropy(self.body(x), target, reduction="sum")


class WithPart(TwoTasks):
    def __init__(self):
        super().__init__()
        self.loss = nn.Linear(2, 2)


def words(outputs, target):
    return functional.cross_entropy(outputs.flatten(0, 1), target.flatten())


def nothing():
    return 1


class Pairs(nn.Module):
    '''A picture and a text, brought to the same place.'''

    def __init__(self):
        super().__init__()
        self.picture, self.words = nn.Sequential(nn.Flatten(), nn.Linear(64, 16)), nn.EmbeddingBag(20, 16)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, image, text):
        return functional.normalize(self.picture(image)), functional.normalize(self.words(text)), self.scale.exp()


def contrast(outputs):
    scores = outputs[2] * outputs[0] @ outputs[1].T
    truth = torch.arange(scores.shape[0], device=scores.device)
    return {"loss": (functional.cross_entropy(scores, truth) + functional.cross_entropy(scores.T, truth)) / 2,
            "accuracy": (scores.argmax(1) == truth).float().mean()}
"""
TWO = ["--input", "1x8x8", "--input", "target=:int64:5", "--input", "size="]
PAIRS = ["--input", "1x8x8", "--input", "text=6:int64:20"]
WORDS = ["--input", "12:int64:20", "--input", "labels=12:int64:20"]


class OwnLoss(ExportTool, CommandTest):
    def setUp(self):
        super().setUp()
        self.nets = self.written_module("nets", FILE)

    def export(self, name, *words, code=0):
        return self.run_export(f"nets.py:{name}", *words, "--out", "net.pt2", code=code)

    def training(self, name, words, first, target=None, **more):
        """With the weights that the tool draws; `first` is the name of the first input, `target` that of the data's target."""
        torch.manual_seed(0)
        module = getattr(self.nets, name)()
        return OwnTraining(module, words[1::2], first, self.folder, target, steps=STEPS, batch=BATCH, **more)

    def run_of(self, training, run, *words):
        file = training.experiment()
        text = json.loads(file.read_text())
        text["dataset"]["val"] = text["dataset"]["train"]
        text["loggers"] = ["jsonl", "csv"]
        file.write_text(json.dumps(text))
        return self.ddprun("net.yaml", f"run.dir={run}", *words).err()

    def rows(self, run, split):
        return [row for row in csv_rows(f"{run}/metrics.csv") if row["split"] == split]

    def test_two_tasks_and_the_learnt_weights_of_their_losses_are_pythons_in_every_bit(self):
        said = self.export("TwoTasks", "--loss", "nets.py:Joint", *TWO, "--prediction", "kind")
        self.assertIn("1,176 trainable weights; it computes its loss from the target target with the metrics size, accuracy; checked against the module", said)
        training = self.training("TwoTasks", TWO, "images", "target")
        module, data = training.module, training.data
        module.loss = self.nets.Joint()
        training.loss = lambda outputs, given: module.loss(outputs, given["target"], given["size"])["loss"]
        self.assertNotIn("warning", self.run_of(training, "run"))
        training.assert_same(self, self.folder / "run")
        found = weights_of(self.folder / "run")
        self.assertFalse(torch.equal(found["loss.scales"], torch.zeros(2)))
        shares = [float(row["accuracy"]) * BATCH for row in self.rows("run", "train")]
        self.assertEqual([share for share in shares if abs(share - round(share)) > 1e-5 or not 0 <= share <= BATCH], [])
        module.eval()
        whole = module.loss(module(data["images"]), data["target"], data["size"])
        val = self.rows("run", "val")[-1]
        for name, value in whole.items():
            self.assertAlmostEqual(float(val[name]), value.item(), delta=1e-5)

    def test_it_begins_with_a_networks_weights(self):
        torch.save(self.nets.TwoTasks().state_dict(), "weights.pt")
        self.export("TwoTasks", "--loss", "nets.py:Joint", *TWO, "--prediction", "kind", "--weights", "weights.pt")
        found, given = torch.export.load("net.pt2").state_dict, torch.load("weights.pt")
        self.assertEqual(set(found) - set(given), {"loss.scales"})
        self.assertEqual([name for name in given if not torch.equal(found[name], given[name])], [])

    def words(self, **more):
        """Whose labels count from their beginning to some place, another one in each sentence."""
        training = self.training("Words", WORDS, "symbols", "labels", **more)
        generator = torch.Generator().manual_seed(9)
        for row in training.target:
            row[torch.randint(2, 12, (), generator=generator) :] = IGNORED
        return training

    def assert_divided_alike(self, training, divisions, *words):
        """Whatever part of the batch is computed where. Returns Python's losses."""
        expected = None
        for number, division in enumerate(divisions):
            self.run_of(training, f"run{number}", *words, *division)
            expected = expected or training.in_python()
            for mine, pythons in zip(losses_of(self.folder / f"run{number}"), expected, strict=True):
                self.assertAlmostEqual(mine, pythons, delta=1e-5)
        return expected

    def test_labels_that_do_not_count_weigh_nothing_however_the_batch_is_divided(self):
        self.assertIn("it computes its loss from the target labels with the metrics right", self.export("Words", "--loss", *WORDS))
        training, divisions = self.words(), [(), ("launch.workers=2",), ("launch.workers=3",), ("trainer.micro_batch=2",)]
        expected = self.assert_divided_alike(training, divisions)
        self.assertEqual(losses_of(self.folder / "run0"), expected)
        with torch.no_grad():
            right = training.module(**training.data)["right"].item()
        for number in range(len(divisions)):
            self.assertAlmostEqual(float(self.rows(f"run{number}", "val")[-1]["right"]), right, delta=1e-5)

    def test_so_does_a_loss_of_its_own_file(self):
        self.run_export("nets.py:words", "--loss", "--input", "outputs=12x20", "--input", "target=12:int64:20", "--out", "loss.pt2")
        self.export("Words", "--input", "12:int64:20")
        training = self.words(loss=lambda outputs, given: self.nets.words(outputs["logits"], given["labels"]))
        self.assert_divided_alike(training, [(), ("launch.workers=3",)], "objective={name: exported, file: loss.pt2}")

    def test_what_was_trained_predicts_without_the_target_and_trains_on(self):
        self.export("Words", "--loss", *WORDS)
        training = self.words()
        self.run_of(training, "run")
        self.ddprun("export", "run", "--out", "trained.pt2")
        program = torch.export.load("trained.pt2").module()
        training.module.load_state_dict(weights_of(self.folder / "run"))
        with torch.no_grad():
            symbols = training.data["symbols"]
            self.assertTrue(torch.equal(program(symbols=symbols), training.module(symbols)["logits"]))
        self.run_of(training, "again", "model.file=trained.pt2")
        self.assertEqual(losses_of(self.folder / "again"), training.in_python())
        self.ddprun("predict", "run", "--split", "val", "--out", "predicted.csv")
        self.assertEqual(len(pathlib.Path("predicted.csv").read_text().splitlines()), 1 + STEPS * BATCH)

    def test_one_without_target_and_prediction_trains_and_says_what_it_cannot(self):
        said = self.export("Denoiser", "--loss", "--input", "8")
        self.assertIn("it gives no prediction, which ddprun predict and ddprun export want", said)
        self.assertIn("loss is taken for a mean over samples, and it draws random numbers", said)
        training = self.training("Denoiser", ["--input", "8"], "x", loss=lambda loss, given: loss)
        self.run_of(training, "run")
        self.assertEqual(losses_of(self.folder / "run"), training.in_python())
        said = self.ddprun("predict", "run", "--split", "val", "--out", "predicted.csv", code=2).err()
        self.assertIn("net.pt2 gives its loss and no prediction", said)

    def test_a_contrast_of_the_batchs_pairs_has_no_target(self):
        said = self.export("Pairs", "--loss", "nets.py:contrast", *PAIRS, "--prediction", "0")
        self.assertIn("it computes its loss with the metrics accuracy; checked against the module", said)
        self.assertIn("loss is taken for a mean over samples, and that of a batch is not the mean of those of its halves", said)
        training = self.training("Pairs", PAIRS, "image", loss=lambda outputs, given: self.nets.contrast(outputs)["loss"])
        self.run_of(training, "run")
        training.assert_same(self, self.folder / "run")

    def test_what_does_not_fit_is_refused_by_name(self):
        pathlib.Path("wrong.py").write_text("import torch\n\n\ndef loss(outputs, target):\n    return torch.no_such_loss(outputs, target)\n")
        target = ["--input", "8", "--input", "target=:int64:5"]
        for words, text in (
            (["Denoiser", "--input", "8"], "forward() gives one number: if it is the loss, say so with --loss"),
            (["NoLoss", "--loss", *target], "forward() gives [3] as loss: expected the loss, one number"),
            (["Denoiser", "--loss", "--input", "8", "--output", "total"], "expected the loss, one number, as loss, or as what --output NAME"),
            (["TwoTasks", "--loss", "nets.py:nothing", *TWO], "--loss: expected a function of what the network gives and of the target"),
            (["Pairs", "--loss", "nets.py:contrast", *PAIRS, "--input", "target=:int64:5"], "forward() has no argument target; known: image, text"),
            (["TwoTasks", "--loss", "nets.py:Joint", *TWO[:4]], "nets.py:Joint takes size: --input size=SIZES is missing"),
            (["WithPart", "--loss", "nets.py:Joint", *TWO], "the network has a part `loss` already"),
            (["Words", "--loss", *WORDS, "--target", "truth"], "--target truth: expected one of the --input after the first: labels"),
            (["Words", "--loss", *WORDS, "--prediction", "guess"], "forward() gives logits: there is no guess; --prediction NAME"),
            (["Words", *WORDS, "--target", "labels"], "--target is for a network that computes its loss: --loss is missing"),
            (["TwoTasks", "--loss", "nets.py:none", *TWO], "nets.py: no class or function none"),
            (["TwoTasks", "--loss", "wrong.py:loss", *TWO[:4]], "wrong.py:5: "),
        ):
            with self.subTest(words):
                said = self.export(*words, code=2)
                self.assertIn(text, said)
                self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn("loss is taken for a mean over samples, and that of a batch is not the mean", self.export("Summed", "--loss", *target))
        training = self.training("Summed", target, "x")
        training.data.pop("target")
        training.experiment()
        said = self.ddprun("check", "net.yaml", code=2).err()
        self.assertIn("takes [*] Long as target; the data give [4] Float as the target", said)
        said = self.ddprun("check", "net.yaml", "objective={name: exported, file: net.pt2}", code=2).err()
        self.assertIn("net.pt2: it is a network (model=exported): expected a loss", said)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""The metrics of classes and labels against torchmetrics: classes that no sample has, classes that nobody guesses, ties, one class alone."""

import json
import os
import pathlib
import subprocess
import sys
import unittest
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(next((ROOT / ".venv/lib").glob("python3*/site-packages"))))  # has torch

import torch
import torchmetrics.functional.classification as peer

PROGRAM = os.environ["DDPRUN_MEASURE"]
FORMS = [name + form for name in ("precision", "recall", "f1") for form in ("", "_micro", "_per_class")]
METRICS = [*FORMS, "mean_iou", "iou_per_class", "mcc", "auroc", "auroc_per_class", "average_precision", "average_precision_per_class"]


def problems():
    """(what it is, objective, float32 predictions, targets)."""
    draw = torch.Generator().manual_seed(5)
    def logits(*shape): return torch.randn(*shape, generator=draw)
    def classes(below, *shape): return torch.randint(below, shape, generator=draw)
    for count in (2, 3, 10):
        for samples in (7, 60, 400):
            yield f"{samples} samples of {count} classes", "cross_entropy", logits(samples, count), classes(count, samples)
    yield "classes without samples", "cross_entropy", logits(200, 7), classes(4, 200)
    yield "classes without guesses", "cross_entropy", logits(200, 7) - 9 * (torch.arange(7) > 4), classes(7, 200)
    yield "classes without either", "cross_entropy", logits(200, 7) - 9 * (torch.arange(7) > 4), classes(5, 200)
    yield "ties", "cross_entropy", logits(300, 4).round(), classes(4, 300)
    yield "all equal", "cross_entropy", torch.zeros(60, 4), classes(4, 60)
    yield "good guesses", "cross_entropy", logits(300, 5) + 3 * torch.eye(5)[(target := classes(5, 300))], target
    yield "ignored samples", "cross_entropy", logits(300, 5), torch.where(classes(3, 300) == 0, -100, classes(5, 300))
    yield "log-probabilities", "nll", logits(200, 6).log_softmax(1), classes(6, 200)
    for samples in (9, 300):
        yield f"{samples} samples, yes or no", "bce", logits(samples), classes(2, samples)
    yield "yes or no with ties", "bce", logits(300).mul(2).round() / 2, classes(2, 300)
    yield "saturated", "bce", 40 * logits(300), classes(2, 300)
    yield "never yes", "bce", logits(80), torch.zeros(80, dtype=torch.long)
    yield "never no", "bce", logits(80), torch.ones(80, dtype=torch.long)
    yield "labels", "bce", logits(300, 5), classes(2, 300, 5)
    yield "labels that no sample has", "bce", logits(120, 4).round(), classes(2, 120, 4) * torch.tensor([1, 0, 1, 0])


def measured(words):
    lines = [json.dumps({"objective": objective, "metrics": METRICS, "prediction": prediction.flatten().tolist(),
                         "shape": prediction.shape, "target": target.flatten().tolist(), "target_shape": target.shape})
             for _, objective, prediction, target in words]
    done = subprocess.run([PROGRAM], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class OfTorchmetrics:
    """What torchmetrics says of a problem."""

    def __init__(self, objective, prediction, target):
        self.target = target
        if objective == "bce":
            self.kind = "multilabel" if target.dim() == 2 else "binary"
            self.words = {"num_labels": target.shape[1]} if target.dim() == 2 else {}
            self.scores = prediction.sigmoid()
        else:
            self.kind, self.words = "multiclass", {"num_classes": prediction.shape[1]}
            self.scores = prediction.exp() if objective == "nll" else prediction.softmax(1)
        if (target == -100).any():
            self.words["ignore_index"] = -100

    def ask(self, function, **words):
        """A float, or a list of one for each class."""
        words = {} if self.kind == "binary" else words
        # By the class of the prediction itself: probabilities may round to equal ones.
        return getattr(peer, f"{self.kind}_{function}")(self.scores, self.target, **self.words, **words).tolist()

    def answers(self):
        names = {"precision": "precision", "recall": "recall", "f1": "f1_score"}
        found = {name: self.ask(function, average="macro") for name, function in names.items()}
        for name, function in names.items():
            found[f"{name}_micro"] = self.ask(function, average="micro")
            self.add_each(found, name, function)
        for name, each, function in (("mean_iou", "iou", "jaccard_index"), ("auroc",) * 3, ("average_precision",) * 3):
            found[name] = self.ask(function, average="macro")
            self.add_each(found, each, function)
        found["mcc"] = self.ask("matthews_corrcoef")
        return found

    def add_each(self, found, name, function):
        values = self.ask(function, average=None)
        values = values if isinstance(values, list) else [values]
        for number, value in enumerate(values):
            found[f"{name}/{1 if self.kind == 'binary' else number}"] = value


class AgainstTorchmetrics(unittest.TestCase):
    def test_the_numbers_are_theirs(self):
        warnings.simplefilter("ignore")
        posed = list(problems())
        self.assertGreaterEqual(len(posed), 20)
        for (what, objective, prediction, target), mine in zip(posed, measured(posed), strict=True):
            theirs = OfTorchmetrics(objective, prediction, target).answers()
            if what.startswith("never"):
                del theirs["mcc"], mine["mcc"]  # undefined: theirs is a limit, ours 0
            self.assertEqual(mine.keys(), theirs.keys(), what)
            for name, value in theirs.items():
                with self.subTest(what, metric=name):
                    if value != value:
                        self.assertIsNone(mine[name])
                    else:
                        self.assertAlmostEqual(mine[name], value, delta=1e-6)


if __name__ == "__main__":
    unittest.main()

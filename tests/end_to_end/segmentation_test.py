# SPDX-License-Identifier: MIT
"""The U-Net finds circles and squares in noise as well as the same network in Python does."""

import csv
import json
import unittest

import torch
from torch.nn import functional

import weights
from command import CommandTest, results
from networks import UNet

SIDE, TRAIN, TEST, BATCH, EPOCHS, LR, MOMENTUM = 32, 150, 50, 10, 16, 0.1, 0.9
WIDTH, DEPTH = 8, 3  # of the network
CLASSES = 3  # nothing, circle, square


def draw_shapes(count, seed):
    """Pictures of a circle and a square that may cover it, each of a colour, under noise; and the class of each pixel."""
    draws = torch.Generator().manual_seed(seed)
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    pictures, masks = torch.zeros(count, 3, SIDE, SIDE), torch.zeros(count, SIDE, SIDE, dtype=torch.int64)
    for picture, mask in zip(pictures, masks):
        for label in (1, 2):
            row, column, radius = (torch.randint(low, high, (1,), generator=draws).item() for low, high in ((8, 24), (8, 24), (4, 9)))
            down, across = (rows - row).abs(), (columns - column).abs()
            inside = down.square() + across.square() <= radius ** 2 if label == 1 else torch.maximum(down, across) <= radius
            mask[inside] = label
            picture[:, inside] = 0.5 + torch.rand(3, 1, generator=draws)
    return {"input": pictures + 0.1 * torch.randn(pictures.shape, generator=draws), "target": masks}


def train_in_python(network, data):
    """The loss of each step."""
    optimizer = torch.optim.SGD(network.parameters(), lr=LR, momentum=MOMENTUM)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * TRAIN // BATCH)
    losses = []
    for _ in range(EPOCHS):
        for pictures, masks in zip(data["input"].split(BATCH), data["target"].split(BATCH)):
            loss = functional.cross_entropy(network(pictures), masks)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    return losses


def score(guess, truth):
    """The share of right pixels, and the mean over the classes of intersection / union."""
    unions = [((guess == label) | (truth == label)).sum() for label in range(CLASSES)]
    shared = [((guess == label) & (truth == label)).sum() for label in range(CLASSES)]
    return (guess == truth).float().mean().item(), sum(float(both / all_) for both, all_ in zip(shared, unions)) / CLASSES


def guesses(network, data):
    """The class of each pixel."""
    with torch.no_grad():
        return network.eval()(data["input"]).argmax(1)


class Segmentation(CommandTest):
    def write(self, train, test):
        for name, tensors in (("train", train), ("test", test)):
            weights.save(self.folder / f"{name}.safetensors", tensors)

    def words(self, *more):
        return ["experiments/digits.yaml", "dataset={plugin: tensors, train: train.safetensors, test: test.safetensors}",
                f"model={{plugin: unet, width: {WIDTH}, depth: {DEPTH}}}", "optimizer=sgd", f"optimizer.lr={LR}", f"optimizer.momentum={MOMENTUM}", "schedule={name: cosine}",
                "~early_stopping", f"trainer.global_batch={BATCH}", f"trainer.max_epochs={EPOCHS}", "trainer.shuffle=false", "trainer.log_every=1",
                "objective.metrics=[accuracy, confusion]", "launch.workers=1", "launch.threads=1", "launch.device=cpu", *more]

    def predicted(self):
        """The guessed class of each pixel of the test pictures."""
        self.ddprun("predict", "run", "--out", "p.csv", "launch.workers=1")
        with open(self.folder / "p.csv", newline="") as file:
            rows = [[float(row[f"prediction_{i}"]) for i in range(SIDE * SIDE)] for row in csv.DictReader(file)]
        return torch.tensor(rows).view(TEST, SIDE, SIDE).long()

    def test_shapes_are_found_as_in_python(self):
        train, test = draw_shapes(TRAIN, 1), draw_shapes(TEST, 2)
        self.write(train, test)
        torch.manual_seed(3)
        network = UNet(3, CLASSES, WIDTH, DEPTH)
        weights.save(self.folder / "start.safetensors", network.state_dict())
        self.ddprun(*self.words("pretrained.file=start.safetensors", "run.dir=run"))
        rows = results(self.folder / "run")
        pythons = train_in_python(network, train)
        ours = [rows["train", step + 1]["loss"] for step in range(len(pythons))]
        self.assertAlmostEqual(ours[0], pythons[0], delta=1e-5)
        self.assertAlmostEqual(ours[1], pythons[1], delta=1e-3)
        self.assertAlmostEqual(ours[-1], pythons[-1], delta=0.02)

        accuracy, iou = score(guesses(network, test), test["target"])
        ours = self.predicted()
        our_accuracy, our_iou = score(ours, test["target"])
        network.load_state_dict(weights.load(self.folder / "run/checkpoints/last/model.safetensors"))
        self.assertGreater((guesses(network, test) == ours).float().mean(), 0.9999)  # equal logits may round apart
        print(f"pixel accuracy {our_accuracy:.4f}, in Python {accuracy:.4f}; mean IoU {our_iou:.4f}, in Python {iou:.4f}")
        self.assertGreater(iou, 0.8)
        self.assertAlmostEqual(our_iou, iou, delta=0.03)
        self.assertAlmostEqual(our_accuracy, accuracy, delta=0.01)
        counted = json.loads(self.ddprun("evaluate", "run", "--json", "launch.workers=1").out())
        self.assertAlmostEqual(counted["metrics"]["test/accuracy"], our_accuracy, places=5)
        table = torch.zeros(CLASSES, CLASSES, dtype=torch.int64)
        table.index_put_((test["target"], ours), torch.ones_like(ours), accumulate=True)
        self.assertEqual(counted["confusion"]["test"]["counts"], table.tolist())

    def test_check_names_masks_of_another_size(self):
        train = draw_shapes(8, 1)
        self.write(train | {"target": train["target"][:, ::2, ::2].contiguous()}, train)
        message = self.ddprun("check", *self.words(), code=2).err()
        self.assertIn('train.safetensors: tensor "target": is [8, 16, 16] int64, a class for each pixel, but the pictures are [8, 3, 32, 32]', message)
        self.write(train, train)
        self.assertIn("no mistakes found", self.ddprun("check", *self.words()).out())
        message = self.ddprun("check", *self.words("model={plugin: resnet}"), code=2).err()
        self.assertIn("forward() gives [4, 3]: expected [4, 3, 32, 32], a number for each of the dataset's classes", message)
        self.assertRegex(self.ddprun("data", *self.words()).out(), r"3 classes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()

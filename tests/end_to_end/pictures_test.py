# SPDX-License-Identifier: MIT
"""Pictures in folders, which are drawn and mixed the same at any number of workers and after kill -9; and the U-Net, which finds circles and
squares in noise as well as the same network in Python does."""

import json
import unittest

import torch

import weights
from command import CommandTest, csv_rows, losses_of
from eager import train, weights_of
from networks import UNet

try:
    import numpy
    import PIL.Image
    MISSING = None
except ImportError as error:
    MISSING = f"there is no Python package {error.name} to make pictures with"

SIDE, TRAIN, TEST, BATCH, EPOCHS, LR, MOMENTUM = 32, 150, 50, 10, 16, 0.1, 0.9
WIDTH, DEPTH = 8, 3  # of the network
CLASSES = 3  # nothing, circle, square
AUGMENTED = ["dataset.crop_scale=[0.2,1]", "+dataset.trivial_augment=true", "+dataset.color_jitter=[0.2,0.2,0.2,0.1]",
             "+dataset.erasing=0.3", "+dataset.rotation=10", "trainer.mixup=0.3", "trainer.cutmix=1"]  # fmt: skip


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


def score(guess, truth):
    """The share of right pixels, and the mean over the classes of intersection / union."""
    unions = [((guess == label) | (truth == label)).sum() for label in range(CLASSES)]
    shared = [((guess == label) & (truth == label)).sum() for label in range(CLASSES)]
    return (guess == truth).float().mean().item(), sum(float(both / all_) for both, all_ in zip(shared, unions)) / CLASSES


def guesses(network, data):
    """The class of each pixel."""
    with torch.no_grad():
        return network.eval()(data["input"]).argmax(1)


@unittest.skipIf(MISSING, MISSING)
class Photos(CommandTest):
    def setUp(self):
        super().setUp()
        draws = numpy.random.default_rng(1)
        for split, count in (("train", 22), ("val", 4)):
            for label, colour in (("lake", (40, 90, 200)), ("wood", (50, 160, 30))):
                folder = self.folder / "photos" / split / label
                folder.mkdir(parents=True)
                for number in range(count):
                    pixels = (draws.integers(-40, 40, (50, 70, 3)) + colour).clip(0, 255).astype("uint8")
                    kind = ("jpg", "png", "webp")[number % 3]
                    PIL.Image.fromarray(pixels).save(folder / f"{number}.{kind}")

    def test_any_number_of_workers_and_a_killed_run_train_on_the_same_mixed_parts(self):
        words = ["experiments/digits.yaml", "model=convnet", "model.dropout=0", "dataset=image_folder", "dataset.root=photos", "dataset.size=24",
                 *AUGMENTED, "trainer.global_batch=9", "trainer.max_epochs=2", "trainer.log_every=1", "~early_stopping", "launch.device=cpu",
                 "launch.threads=1", "checkpoint.every=3st", "trainer.prefetch_threads=3"]
        self.assertEqual(len(losses_of(self.assert_worlds_alike(words, (2, 3), delta=1e-3))), 2 * 5)  # other parts change it by 0.01
        self.assert_same_end(self.kill_and_resume("killed", (8,), *words, "launch.workers=2"), self.folder / "run2")

    def test_the_recipe_for_imagenet_passes_its_check(self):
        checked = self.ddprun("check", "experiments/imagenet_folder.yaml", "dataset.root=photos", "trainer.global_batch=8").out()
        self.assertIn("trains resnet on image_folder", checked)

    def test_what_is_left_alone_is_reported_by_check_data_and_the_run(self):
        for name in ("train/lake/notes.txt", "train/wood/.DS_Store", "README", "annotations/a.xml"):
            (self.folder / "photos" / name).parent.mkdir(exist_ok=True)
            (self.folder / "photos" / name).write_text("no picture")
        (self.folder / "photos/val").rename(self.folder / "photos/Validation")
        words = ["experiments/digits.yaml", "model=convnet", "dataset=image_folder", "dataset.root=photos", "dataset.size=24", "name=photos"]
        said = "4 of 56 files left alone: "
        self.assertIn("data: " + said, self.ddprun("check", *words).out())
        self.assertIn("Found: " + said, " ".join(self.ddprun("data", *words).out().split()))
        run = self.ddprun(*words, "trainer.max_steps=1", "trainer.global_batch=8", "launch.device=cpu", "run.dir=run")
        self.assertIn("data: " + said, run.err())
        account = json.loads((self.folder / "run/data.json").read_text())["account"]
        self.assertEqual(account["used"] + sum(one["count"] for one in account["left_alone"]), 56)
        self.assertEqual(len(account["digest"]), 64)
        self.assertIn(account["text"], (self.folder / "run/report.html").read_text())

    def test_a_loss_that_cannot_take_shares_is_refused_with_its_place(self):
        message = self.ddprun("check", "experiments/digits.yaml", "trainer.mixup=0.2", "+objective.name=nll", code=2).err()
        self.assertIn("command line: trainer.mixup=0.2: trainer.mixup: mixes the classes of samples, which objective nll cannot take; "
                      "choose cross_entropy", message)
        self.assertEqual(len(message.splitlines()), 1, message)


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
        rows = [[float(row[f"prediction_{i}"]) for i in range(SIDE * SIDE)] for row in csv_rows(self.folder / "p.csv")]
        return torch.tensor(rows).view(TEST, SIDE, SIDE).long()

    def test_shapes_are_found_as_in_python(self):
        data, test = draw_shapes(TRAIN, 1), draw_shapes(TEST, 2)
        self.write(data, test)
        torch.manual_seed(3)
        network = UNet(3, CLASSES, WIDTH, DEPTH)
        weights.save(self.folder / "start.safetensors", network.state_dict())
        self.ddprun(*self.words("pretrained.file=start.safetensors", "run.dir=run"))
        optimizer = torch.optim.SGD(network.parameters(), lr=LR, momentum=MOMENTUM)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * TRAIN // BATCH)
        batches = [*zip(data["input"].split(BATCH), data["target"].split(BATCH))] * EPOCHS
        pythons, ours = train(network, batches, optimizer, after=lambda step: schedule.step()), losses_of(self.folder / "run")
        self.assertEqual(len(ours), len(pythons))
        self.assertAlmostEqual(ours[0], pythons[0], delta=1e-5)
        self.assertAlmostEqual(ours[1], pythons[1], delta=1e-3)
        self.assertAlmostEqual(ours[-1], pythons[-1], delta=0.02)

        accuracy, iou = score(guesses(network, test), test["target"])
        ours = self.predicted()
        our_accuracy, our_iou = score(ours, test["target"])
        network.load_state_dict(weights_of(self.folder / "run"))
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
        data = draw_shapes(8, 1)
        self.write(data | {"target": data["target"][:, ::2, ::2].contiguous()}, data)
        message = self.ddprun("check", *self.words(), code=2).err()
        self.assertIn('train.safetensors: tensor "target": is [8, 16, 16] int64, a class for each pixel, but the pictures are [8, 3, 32, 32]', message)
        self.write(data, data)
        self.assertIn("no mistakes found", self.ddprun("check", *self.words()).out())
        message = self.ddprun("check", *self.words("model={plugin: resnet}"), code=2).err()
        self.assertIn("forward() gives [4, 3]: expected [4, 3, 32, 32], a number for each of the dataset's classes", message)
        self.assertRegex(self.ddprun("data", *self.words()).out(), r"3 classes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()

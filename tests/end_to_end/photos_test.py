# SPDX-License-Identifier: MIT
"""Photographs in folders: drawn and mixed the same at any number of workers and after a stop, by the recipe that ships."""

import io
import json
import sys
import unittest

from command import CommandTest, all_rows

try:
    import numpy
    import PIL.Image
    MISSING = None
except ImportError as error:
    MISSING = error.name

AUGMENTED = ["dataset.crop_scale=[0.2,1]", "+dataset.trivial_augment=true", "+dataset.color_jitter=[0.2,0.2,0.2,0.1]",
             "+dataset.erasing=0.3", "+dataset.rotation=10", "trainer.mixup=0.3", "trainer.cutmix=1"]  # fmt: skip


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

    def losses(self, name, workers, *words):
        self.ddprun("experiments/digits.yaml", "model=convnet", "model.dropout=0", "dataset=image_folder", "dataset.root=photos",
                    "dataset.size=24", *AUGMENTED, "trainer.global_batch=9", "trainer.max_epochs=2", "trainer.log_every=1",
                    "~early_stopping", f"launch.workers={workers}", "launch.device=cpu", "launch.threads=1", f"run.dir={name}", *words)  # fmt: skip
        return {(row["split"], row["step"]): row["loss"] for row in all_rows(self.folder / name) if row["split"] in ("train", "val")}

    def test_any_number_of_workers_and_a_resumed_run_train_on_the_same_mixed_parts(self):
        alone, pair = self.losses("alone", 1), self.losses("pair", 2)
        self.assertEqual(len(alone), 2 * 5 + 2)
        for several in (pair, self.losses("three", 3, "trainer.prefetch_threads=3")):
            for place, loss in alone.items():
                self.assertAlmostEqual(several[place], loss, delta=1e-3, msg=place)  # rounding; other parts change it by 0.01
        self.losses("start", 2, "trainer.max_steps=7")
        rest = self.losses("rest", 2, "checkpoint.resume=start")
        for step in (8, 9, 10):
            self.assertEqual(rest["train", step], pair["train", step])

    def test_the_recipe_for_imagenet_passes_its_check(self):
        checked = self.ddprun("check", "experiments/imagenet_folder.yaml", "dataset.root=photos", "trainer.global_batch=8").out()
        self.assertIn("trains resnet on image_folder", checked)

    def test_what_is_left_alone_is_told_by_check_data_and_the_run(self):
        for name in ("train/lake/notes.txt", "train/wood/.DS_Store", "README", "annotations/a.xml"):
            (self.folder / "photos" / name).parent.mkdir(exist_ok=True)
            (self.folder / "photos" / name).write_text("no picture")
        (self.folder / "photos/val").rename(self.folder / "photos/Validation")
        words = ["experiments/digits.yaml", "model=convnet", "dataset=image_folder", "dataset.root=photos", "dataset.size=24", "name=photos"]
        told = "4 of 56 files left alone: "
        self.assertIn("data: " + told, self.ddprun("check", *words).out())
        self.assertIn("Found: " + told, " ".join(self.ddprun("data", *words).out().split()))
        run = self.ddprun(*words, "trainer.max_steps=1", "trainer.global_batch=8", "launch.device=cpu", "run.dir=run")
        self.assertIn("data: " + told, run.err())
        account = json.loads((self.folder / "run/data.json").read_text())["account"]
        self.assertEqual(account["used"] + sum(one["count"] for one in account["left_alone"]), 56)
        self.assertEqual(len(account["digest"]), 64)
        self.assertIn(account["text"], (self.folder / "run/report.html").read_text())

    def test_a_loss_that_cannot_take_shares_is_refused_with_its_place(self):
        message = self.ddprun("check", "experiments/digits.yaml", "trainer.mixup=0.2", "+objective.name=nll", code=2).err()
        self.assertIn("command line: trainer.mixup=0.2: trainer.mixup: mixes the classes of samples, which objective nll cannot take; "
                      "choose cross_entropy", message)
        self.assertEqual(len(message.splitlines()), 1, message)


if __name__ == "__main__":
    if MISSING:
        print(f"skipped: there is no Python package {MISSING} to make pictures with")
        sys.exit(77)
    unittest.main()

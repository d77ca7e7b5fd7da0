# SPDX-License-Identifier: MIT
"""Shards as the webdataset package writes them: the same samples as in a folder, whatever the order, and exact resumes."""

import json
import os
import pathlib
import random
import unittest

import PIL.Image
import webdataset

from command import CommandTest

CLASSES, PICTURES, SIDE = ("circle", "square", "stripe"), 61, 24
WORDS = ("trainer.max_epochs=2", "trainer.global_batch=12", "trainer.log_every=1", "launch.workers=2", "checkpoint.every=4st")


def picture(draw, label):
    """Noise of a colour that its class leans to."""
    colour = [80 + 60 * (channel == label) for channel in range(3)]
    pixels = bytes(min(255, value + draw.randrange(100)) for _ in range(SIDE * SIDE) for value in colour)
    return PIL.Image.frombytes("RGB", (SIDE, SIDE), pixels)


class Shards(CommandTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(5)
        os.chdir(self.folder)
        self.addCleanup(os.chdir, "/")
        for split, count in (("train", PICTURES), ("val", 10)):
            with webdataset.ShardWriter(f"{split}-%06d.tar", maxcount=50, verbose=0) as shards:
                for label, name in enumerate(CLASSES):
                    folder = pathlib.Path("pictures", split, name)
                    folder.mkdir(parents=True)
                    for number in range(count):
                        file = folder / f"{number:03}.jpg"
                        picture(draw, label).save(file)
                        shards.write({"__key__": f"{name}_{number:03}", "jpg": file.read_bytes(), "cls": label})
        self.write("shards", "{plugin: shards, train: 'train-{000000..000003}.tar', val: 'val-*.tar'")
        self.write("folder", "{plugin: image_folder, root: pictures")

    def write(self, name, dataset):
        pathlib.Path(f"{name}.yaml").write_text(f"seed: 3\nmodel: mlp\ndataset: {dataset}, size: {SIDE}, flip: true}}\n"
                                                "optimizer: {plugin: sgd, lr: 0.05}\nlaunch: {device: cpu, threads: 1}\n")

    def test_they_train_as_the_folder_does_and_continue_from_the_middle_of_a_shard(self):
        pathlib.Path("classes.json").write_text(json.dumps(CLASSES))
        reported = self.ddprun("data", "shards.yaml").out()
        for name in CLASSES:
            self.assertRegex(reported, rf"{name} +61 +10")
        folder, shards = (self.train(name, f"{name}.yaml", *WORDS) for name in ("folder", "shards"))
        self.assert_same_end(shards, folder)
        self.assert_same_end(self.kill_and_resume("killed", (6,), "shards.yaml", *WORDS), shards)

    def test_what_is_wrong_in_a_shard_is_named(self):
        shard = pathlib.Path("train-000002.tar")
        whole = shard.read_bytes()
        shard.write_bytes(whole[:-11_000])
        self.assertIn("train-000002.tar: it is cut short", self.assert_refused("shards.yaml", *WORDS, "run.dir=run"))
        shard.write_bytes(whole)
        with webdataset.TarWriter("train-000003.tar") as file:
            file.write({"__key__": "note", "jpg": b"a text", "cls": 0})
        self.assertIn("train-000003.tar: note.jpg: is a text file", self.assert_refused("shards.yaml", *WORDS, "run.dir=run"))


if __name__ == "__main__":
    unittest.main()

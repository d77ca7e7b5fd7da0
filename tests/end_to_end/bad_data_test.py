# SPDX-License-Identifier: MIT
"""Data that are not what their files claim: the command names the file, what it found and what it expected."""

import gzip
import struct
import unittest

from command import CommandTest

IMAGES, LABELS = 0x803, 0x801


def images(count, claimed=None, side=28):
    return struct.pack(">4I", IMAGES, claimed or count, side, side) + bytes(count * side * side)


def labels(count, claimed=None, label=3):
    return struct.pack(">2I", LABELS, claimed or count) + bytes([label]) * count


class IdxFiles(CommandTest):
    def setUp(self):
        super().setUp()
        self.files = {"train-images-idx3-ubyte": images(40), "train-labels-idx1-ubyte": labels(40),
                      "t10k-images-idx3-ubyte": images(20), "t10k-labels-idx1-ubyte": labels(20)}

    def words(self):
        folder = self.folder / "data"
        folder.mkdir()
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return ["experiments/mnist.yaml", "dataset.root=data", "dataset.validation=10", "trainer.global_batch=8",
                "trainer.max_epochs=1", "launch.workers=2", "launch.device=cpu", "~early_stopping", "run.dir=run"]

    def refuse(self, name, *texts):
        message = self.ddprun(*self.words(), code=2).err()
        self.assertIn(f"data/{name}", message)
        for text in texts:
            self.assertIn(text, message)
        for word in ("internal", "terminate called", "frame #"):
            self.assertNotIn(word, message)
        self.assert_nothing_left()

    def test_whole_files_are_trained_on(self):
        self.ddprun(*self.words())

    def test_a_truncated_file(self):
        self.files["train-images-idx3-ubyte"] = images(40)[:-1]
        self.refuse("train-images-idx3-ubyte", "its header claims 40 images of 28 x 28", "it is truncated")

    def test_a_truncated_archive(self):
        self.files["train-images-idx3-ubyte"] = gzip.compress(images(40))[:-9]
        self.refuse("train-images-idx3-ubyte", "the end of the packed file is missing")

    def test_a_header_that_claims_more_than_any_memory(self):
        self.files["train-images-idx3-ubyte"] = images(40, claimed=0xFFFFFFFF)
        self.refuse("train-images-idx3-ubyte", "its header claims 4294967295 images")

    def test_a_wrong_magic_number(self):
        self.files["t10k-labels-idx1-ubyte"] = b"<!DOCTYPE html>" * 9
        self.refuse("t10k-labels-idx1-ubyte", "magic number 0x3c21444f, expected 0x00000801", "looks like a web page")

    def test_images_and_labels_swapped(self):
        self.files["train-images-idx3-ubyte"], self.files["train-labels-idx1-ubyte"] = labels(40), images(40)
        self.refuse("train-images-idx3-ubyte", "swapped?")

    def test_images_and_labels_of_different_number(self):
        self.files["train-labels-idx1-ubyte"] = labels(39)
        self.refuse("train-labels-idx1-ubyte", "40 images", "39 labels")

    def test_a_label_beyond_the_classes(self):
        self.files["t10k-labels-idx1-ubyte"] = labels(20)[:-1] + b"\x0b"
        self.refuse("t10k-labels-idx1-ubyte", "label 11 of image 19, expected 0 to 9")

    def test_an_empty_file(self):
        self.files["train-labels-idx1-ubyte"] = b""
        self.refuse("train-labels-idx1-ubyte", "the file is empty or truncated")


if __name__ == "__main__":
    unittest.main()

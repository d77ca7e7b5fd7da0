# SPDX-License-Identifier: MIT
"""Data that are not what their files claim: the command names the file, what it found and what it expected."""

import gzip
import struct
import unittest
import zlib

from command import CommandTest, checkpoint_steps, is_whole, summary

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


def png(shade, whole=True):
    """8 x 8 grey pixels; all but their packed content is in order."""
    content = zlib.compress(8 * (b"\0" + bytes([shade] * 8)))
    chunks = (b"IHDR", struct.pack(">2I5B", 8, 8, 8, 0, 0, 0, 0)), (b"IDAT", content if whole else content[:len(content) // 2]), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks)


class DamagedTestPicture(CommandTest):
    def test_a_trained_run_is_no_failure_and_says_what_it_lacks(self):
        for split, count in (("train", 4), ("val", 2), ("test", 2)):
            for label in (50, 200):
                folder = self.folder / f"data/{split}/{label}"
                folder.mkdir(parents=True)
                for number in range(count):
                    (folder / f"{number}.png").write_bytes(png(label + number))
        damaged = self.folder / "data/test/200/1.png"
        damaged.write_bytes(png(200, whole=False))
        running = self.ddprun("experiments/digits.yaml", "model=mlp", "dataset=image_folder", "dataset.root=data", "dataset.size=8",
                              "trainer.global_batch=4", "trainer.max_epochs=2", "~early_stopping", "launch.workers=2", "launch.device=cpu",
                              "launch.threads=1", "run.dir=run", code=1)
        run = self.folder / "run"
        for told in (running.err(), running.out(), summary(run)["test_error"], summary(run)["stop_reason"]):
            self.assertIn("data/test/200/1.png", told)
        self.assertIn(f"ddprun evaluate {run}", running.err())
        self.assertNotIn("ddprun resume", running.err())
        self.assertEqual(summary(run)["status"], "completed")
        self.assertTrue(is_whole(run / f"checkpoints/step_{checkpoint_steps(run)[-1]:08}"))
        damaged.write_bytes(png(201))
        self.assertRegex(self.ddprun("evaluate", run).out(), r"test +4 of 4 ")


if __name__ == "__main__":
    unittest.main()

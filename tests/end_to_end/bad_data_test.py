# SPDX-License-Identifier: MIT
"""Data that are not what they claim: the command names the file, what it found and what it expected. Each reader's own tests in
tests/datasets have all of its mistakes."""

import gzip
import io
import shutil
import struct
import tarfile
import unittest

from command import CommandTest, checkpoint_steps, is_whole, summary
from init_test import npy, png

IMAGES, LABELS = 0x803, 0x801


def images(count, claimed=None, side=28):
    return struct.pack(">4I", IMAGES, claimed or count, side, side) + bytes(count * side * side)


def labels(count, claimed=None, label=3):
    return struct.pack(">2I", LABELS, claimed or count) + bytes([label]) * count


def cifar(*members, cut=None):
    """cifar-100-binary.tar.gz, with these members too."""
    def records(count):
        return b"".join(bytes([n % 20, n % 100]) + bytes([n]) * 3072 for n in range(count))

    def names(count):
        return "".join(f"class{n}\n" for n in range(count)).encode()

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in {"train.bin": records(40), "test.bin": records(20), "fine_label_names.txt": names(100),
                              "coarse_label_names.txt": names(20)}.items():  # fmt: skip
            member = tarfile.TarInfo(f"cifar-100-binary/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in members:
            archive.addfile(member)
    return packed.getvalue()[:cut]


MNIST = (["experiments/mnist.yaml", "dataset.root=data", "dataset.validation=10"],
         {"train-images-idx3-ubyte": images(40), "train-labels-idx1-ubyte": labels(40),
          "t10k-images-idx3-ubyte": images(20), "t10k-labels-idx1-ubyte": labels(20)})  # fmt: skip
CIFAR = (["experiments/digits.yaml", "model=mlp", "dataset=cifar100", "dataset.root=data", "dataset.validation=10",
           "dataset.download=false"], {"cifar-100-binary.tar.gz": cifar()})
PICTURES = (["experiments/digits.yaml", "model=mlp", "dataset=image_folder", "dataset.root=data", "dataset.size=8", "dataset.resize=8"],
            {f"{split}/{label}/{number}.png": png(12, (90, 90, 90)) for split in ("train", "val", "test") for label in ("cat", "dog")
             for number in range(6)})  # fmt: skip
ARRAYS = (["experiments/digits.yaml", "model=mlp", "dataset=tensors", "dataset.train=[data/input.npy,data/target.npy]", "dataset.val_fraction=0.2"],
          {"input.npy": npy("<f4", (20, 3), bytes(240)), "target.npy": npy("|u1", (20,), bytes(n % 3 for n in range(20)))})  # fmt: skip
WHOLE = {"mnist": MNIST, "cifar": CIFAR, "pictures": PICTURES, "arrays": ARRAYS}

# {what is wrong: (the data, the files that are others, words of the message)}; a file without content is not there.
MISTAKES = {
    "truncated": (MNIST, {"train-images-idx3-ubyte": images(40)[:-1]},
                  ["data/train-images-idx3-ubyte", "its header claims 40 images of 28 x 28", "it is truncated"]),
    "packed and truncated": (MNIST, {"train-images-idx3-ubyte": gzip.compress(images(40))[:-9]},
                             ["data/train-images-idx3-ubyte", "the end of the packed file is missing"]),
    "a web page": (MNIST, {"t10k-labels-idx1-ubyte": b"<!DOCTYPE html>" * 9},
                   ["data/t10k-labels-idx1-ubyte", "magic number 0x3c21444f, expected 0x00000801", "looks like a web page"]),
    "a label of no class": (MNIST, {"t10k-labels-idx1-ubyte": labels(20)[:-1] + b"\x0b"}, ["label 11 of image 19, expected 0 to 9"]),
    "a truncated archive": (CIFAR, {"cifar-100-binary.tar.gz": cifar(cut=-20)}, ["data/cifar-100-binary.tar.gz: is truncated"]),
    "a member out of the folder": (CIFAR, {"cifar-100-binary.tar.gz": cifar(tarfile.TarInfo("../../evil"))},
                                   ["has a member ../../evil, expected all below cifar-100-binary/"]),
    "no archive": (CIFAR, {"cifar-100-binary.tar.gz": None},
                   ["cifar100: the files are not there, and dataset.download is false",
                    "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"]),
    "no pictures": (PICTURES, {"train/cat/text.jpg": b"not a picture", "test/dog/empty.png": b""},
                    ["data: 2 images cannot be read:", "data/train/cat/text.jpg: is a text file, expected PNG, JPEG or WebP",
                     "data/test/dog/empty.png: is empty", "dataset.skip_unreadable=true"]),
    "a class of one split": (PICTURES, {"val/bird/0.png": png(4, (0, 0, 0))}, ["data/val/bird: a class that train does not have"]),
    "a header beyond the file": (ARRAYS, {"input.npy": npy("<f4", "(20000000000, 3)", bytes(240))},
                                 ["input.npy: its header claims [20000000000, 3] float32", "but 240 follow: it is truncated"]),
    "fewer targets than inputs": (ARRAYS, {"target.npy": npy("|u1", (19,), bytes(19))}, ["target.npy: has 19 rows, but", "input.npy has 20"]),
}  # fmt: skip


class BadData(CommandTest):
    def put(self, files):
        """These are all of the data."""
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        for name, content in files.items():
            path = self.folder / "data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is not None:
                path.write_bytes(content)

    def train(self, words, *more, run="run", code=0):
        return self.ddprun(*words, "trainer.global_batch=8", "trainer.max_epochs=1", "launch.workers=2", "launch.threads=1", "launch.device=cpu",
                           "~early_stopping", f"run.dir={run}", *more, code=code)  # fmt: skip

    def test_whole_files_are_trained_on(self):
        for name, (words, files) in WHOLE.items():
            with self.subTest(name):
                self.put(files)
                self.train(words, run=name)

    def test_each_mistake_names_its_file(self):
        for what, ((words, files), others, texts) in MISTAKES.items():
            with self.subTest(what):
                self.put(files | others)
                message = self.train(words, run=what, code=2).err()
                for text in texts:
                    self.assertIn(text, message)
                for word in ("internal", "terminate called", "frame #"):
                    self.assertNotIn(word, message)
                self.assert_nothing_left()
        self.assertFalse((self.folder.parent / "evil").exists())

    def test_pictures_that_cannot_be_read_are_skipped_where_that_is_asked_for(self):
        words, files = PICTURES
        self.put(files | MISTAKES["no pictures"][1])
        self.train(words, "dataset.skip_unreadable=true")
        self.assertEqual(summary(self.folder / "run")["test_total"], 12)

    def test_a_picture_that_is_damaged_inside_is_found_in_training(self):
        words, files = PICTURES
        content = files["train/cat/0.png"]
        self.put(files | {"train/cat/0.png": content[:-25] + bytes([content[-25] ^ 1]) + content[-24:]})
        self.assertIn("data/train/cat/0.png: is a damaged PNG", self.train(words, code=1).err())  # its header is right
        self.assert_nothing_left()

    def test_a_damaged_test_picture_is_no_failure_of_a_trained_run_which_says_what_it_lacks(self):
        words, files = PICTURES
        damaged = "test/dog/5.png"
        self.put(files | {damaged: files[damaged][:-25] + b"\0" + files[damaged][-24:]})
        running = self.train(words, code=1)
        run = self.folder / "run"
        for text in (running.err(), running.out(), summary(run)["test_error"], summary(run)["stop_reason"]):
            self.assertIn(f"data/{damaged}", text)
        self.assertIn(f"ddprun evaluate {run}", running.err())
        self.assertNotIn("ddprun resume", running.err())
        self.assertEqual(summary(run)["status"], "completed")
        self.assertTrue(is_whole(run / f"checkpoints/step_{checkpoint_steps(run)[-1]:08}"))
        (self.folder / "data" / damaged).write_bytes(files[damaged])
        self.assertRegex(self.ddprun("evaluate", run).out(), r"test +\d+ of 12 ")


if __name__ == "__main__":
    unittest.main()

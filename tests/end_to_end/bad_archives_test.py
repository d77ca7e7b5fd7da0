# SPDX-License-Identifier: MIT
"""Archives, pictures and arrays that are not what they claim: the command names the file, what it found and what it expected."""

import io
import struct
import tarfile
import unittest
import zlib

from command import CommandTest, summary


def records(count):
    return b"".join(bytes([n % 20, n % 100]) + bytes([n]) * 3072 for n in range(count))


def names(count):
    return "".join(f"class{n}\n" for n in range(count)).encode()


def png(width, height, claimed=None):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">2I5B", *(claimed or (width, height)), 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes(3 * width)) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class DataTest(CommandTest):
    """Subclasses give the words that choose the dataset."""

    def words(self, *more):
        return ["experiments/digits.yaml", "model=mlp", *self.dataset(), "trainer.global_batch=8", "trainer.max_epochs=1",
                "launch.workers=2", "launch.device=cpu", "~early_stopping", "run.dir=run", *more]

    def refuse(self, *texts):
        message = self.ddprun(*self.words(), code=2).err()
        for text in texts:
            self.assertIn(text, message)
        for word in ("internal", "terminate called", "frame #"):
            self.assertNotIn(word, message)
        self.assert_nothing_left()


class CifarArchive(DataTest):
    def setUp(self):
        super().setUp()
        self.members = {"train.bin": records(40), "test.bin": records(20), "fine_label_names.txt": names(100),
                        "coarse_label_names.txt": names(20)}
        self.odd_members = []
        self.cut = None

    def dataset(self):
        return ["dataset=cifar100", "dataset.root=data", "dataset.validation=10", "dataset.download=false"]

    def words(self, *more):
        folder = self.folder / "data"
        folder.mkdir()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, content in self.members.items():
                member = tarfile.TarInfo(f"cifar-100-binary/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            for member in self.odd_members:
                archive.addfile(member)
        (folder / "cifar-100-binary.tar.gz").write_bytes(packed.getvalue()[:self.cut])
        return super().words(*more)

    def test_a_whole_archive_is_trained_on(self):
        self.ddprun(*self.words())
        self.assertEqual(summary(self.folder / "run")["test_total"], 20)

    def test_a_truncated_archive(self):
        self.cut = -20
        self.refuse("data/cifar-100-binary.tar.gz: is truncated")

    def test_a_member_with_half_a_record(self):
        self.members["train.bin"] = records(40)[:-1000]
        self.refuse("cifar-100-binary/train.bin: holds 121960 bytes, expected 1 to 50000 records of 3074 bytes")

    def test_a_label_beyond_the_classes(self):
        self.members["test.bin"] = records(20) + bytes([19, 100]) + bytes(3072)
        self.refuse("cifar-100-binary/test.bin: label 100 of image 20, expected 0 to 99")

    def test_a_member_that_is_missing(self):
        del self.members["test.bin"]
        self.refuse("cifar-100-binary.tar.gz: lacks cifar-100-binary/test.bin")

    def test_a_member_that_leads_out_of_the_folder(self):
        self.odd_members = [tarfile.TarInfo("../../evil")]
        self.refuse("has a member ../../evil, expected all below cifar-100-binary/")
        self.assertFalse((self.folder.parent / "evil").exists())

    def test_a_link(self):
        link = tarfile.TarInfo("cifar-100-binary/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        self.odd_members = [link]
        self.refuse("has a member cifar-100-binary/link that is a link or a device")

    def test_an_archive_that_is_not_there(self):
        words = self.words()
        (self.folder / "data" / "cifar-100-binary.tar.gz").unlink()
        message = self.ddprun(*words, code=2).err()
        self.assertIn("cifar100: the files are not there, and dataset.download is false", message)
        self.assertIn("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", message)

    def test_too_few_images_to_hold_out(self):
        message = self.ddprun(*self.words("dataset.validation=40"), code=2).err()
        self.assertIn("holds 40 training images: too few for validation: 40", message)


class Pictures(DataTest):
    def setUp(self):
        super().setUp()
        for split in ("train", "val", "test"):
            for label in ("cat", "dog"):
                for number in range(6):
                    self.put(f"{split}/{label}/{number}.png", png(12, 10))

    def dataset(self):
        return ["dataset=image_folder", "dataset.root=data", "dataset.size=8", "dataset.resize=8"]

    def put(self, name, content):
        path = self.folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def test_whole_pictures_are_trained_on(self):
        self.ddprun(*self.words())
        self.assertEqual(summary(self.folder / "run")["test_total"], 12)

    def test_files_that_are_no_pictures(self):
        self.put("train/cat/text.jpg", b"not a picture")
        self.put("test/dog/empty.png", b"")
        self.refuse("data: 2 images cannot be read:", "data/train/cat/text.jpg: is a text file, expected PNG, JPEG or WebP",
                    "data/test/dog/empty.png: is empty", "dataset.skip_unreadable=true")
        self.ddprun(*self.words("dataset.skip_unreadable=true"))
        self.assertEqual(summary(self.folder / "run")["test_total"], 12)

    def test_a_picture_that_claims_more_than_any_memory(self):
        self.put("train/cat/bomb.png", png(4, 4, claimed=(65000, 65000)))
        self.refuse("data/train/cat/bomb.png: claims 65000 x 65000 pixels, at most 67108864 are decoded")

    def test_a_class_that_only_one_split_has(self):
        self.put("val/bird/0.png", png(4, 4))
        self.refuse("data/val/bird: a class that train does not have")

    def test_a_picture_that_is_cut_short(self):
        self.put("train/cat/0.png", png(12, 10)[:-20])
        self.refuse("data/train/cat/0.png: is a damaged PNG")

    def test_a_picture_that_is_damaged_inside(self):
        content = png(12, 10)
        self.put("train/cat/0.png", content[:-25] + bytes([content[-25] ^ 1]) + content[-24:])
        message = self.ddprun(*self.words(), code=1).err()  # its header is right: found in training
        self.assertIn("data/train/cat/0.png: is a damaged PNG", message)
        self.assert_nothing_left()


class Arrays(DataTest):
    def dataset(self):
        return ["dataset=tensors", "dataset.train=[input.npy,target.npy]", "dataset.val_fraction=0.2"]

    def put(self, name, descr, shape, values):
        header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
        (self.folder / name).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values)

    def setUp(self):
        super().setUp()
        self.put("input.npy", "<f4", "(20, 3)", bytes(240))
        self.put("target.npy", "|u1", "(20,)", bytes(n % 3 for n in range(20)))

    def test_whole_arrays_are_trained_on(self):
        self.ddprun(*self.words())

    def test_a_header_that_claims_more_than_the_file_holds(self):
        self.put("input.npy", "<f4", "(20000000000, 3)", bytes(240))
        self.refuse("input.npy: its header claims [20000000000, 3] float32", "but 240 follow: it is truncated")

    def test_big_endian_values(self):
        self.put("input.npy", ">f4", "(20, 3)", bytes(240))
        self.refuse("input.npy: is big-endian ('>f4'), expected '<f4'")

    def test_fewer_targets_than_inputs(self):
        self.put("target.npy", "|u1", "(19,)", bytes(19))
        self.refuse("target.npy: has 19 rows, but", "input.npy has 20")


if __name__ == "__main__":
    unittest.main()

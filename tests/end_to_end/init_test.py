# SPDX-License-Identifier: MIT
"""`ddprun init DATA`: an experiment that passes `check` and trains, or one message that says what was expected."""

import os
import shutil
import struct
import unittest
import zlib

from command import CommandTest, summary

try:
    import numpy
    import safetensors  # noqa: F401
except ImportError:
    numpy = None


def png(side, colour, channels=3):
    """A square of one colour."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = (b"\0" + bytes(colour[:channels]) * side) * side
    head = struct.pack(">IIBBBBB", side, side, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def npy(kind, shape, content):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content


class Init(CommandTest):
    def put(self, **files):
        """{path: content} below photos/; a / in a path is written __."""
        for name, content in files.items():
            file = self.folder / "photos" / name.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    def pictures(self, folder, counts, side=20, channels=3):
        for label, (name, count) in enumerate(counts.items()):
            for number in range(count):
                self.put(**{f"{folder}{name}__{number}.png": png(side, (200 * label, 250 - 3 * number, 7), channels)})

    def init(self, *words, place="photos"):
        text = self.ddprun("init", place, *words).out()
        self.assertNotIn("Warning", text)
        experiment = self.folder / (place.split(".")[0] + ".yaml")
        self.ddprun("check", experiment.name)
        return text, experiment.read_text()

    def assert_lines(self, experiment, *lines):
        for line in lines:
            self.assertIn(line, experiment)

    def test_names_that_mean_something_to_an_experiment_or_a_shell_mean_nothing(self):
        self.pictures("", {"cats": 6, "dogs": 6})
        last = "photos"
        for name in ("${env:HOME}", "a b's #1: {x}", "null"):
            with self.subTest(name):
                (self.folder / last).rename(self.folder / name)
                self.ddprun("init", name)
                self.assertIn(name, self.ddprun("--cfg", f"{name}.yaml").out().splitlines()[0])
                self.ddprun("check", f"{name}.yaml")
                last = name
        (self.folder / last).rename(self.folder / "a\nb")
        self.assertIn("has a control character in it", self.ddprun("init", "a\nb", code=2).err())

    def test_pictures_in_class_folders_train(self):
        self.pictures("", {"cats": 30, "dogs": 9})
        text, experiment = self.init()
        self.assertIn("times as many training samples as the smallest", text)
        self.assert_lines(experiment, '  root: "photos"\n', "  size: 20 ", "  val_fraction: 0.2 ", "monitor: val/accuracy", "plugin: convnet_bn",
                          "# trainer: {sampling: {balance: class}}", "  crop_padding: 4 ", "  flip: true ", "predictions: {")
        self.assertRegex(text, r"\ncats +24 +6\ndogs +7 +2\n")  # each class has its share
        for place in ("channels", "csv", "crop_scale", "${"):
            self.assertNotIn(place, experiment)
        self.ddprun("photos.yaml", "trainer.max_steps=6", "launch.device=cpu", "run.dir=run")
        self.assertEqual(summary(self.folder / "run")["steps"], 6)
        self.assertIn("photos.yaml exists already, and is not overwritten", self.ddprun("init", "photos", code=2).err())

    def test_splits_and_grey_pictures_are_seen(self):
        for split in ("train", "val", "test"):
            self.pictures(f"{split}__", {"a": 5, "b": 5}, side=100, channels=1)
        text, experiment = self.init()
        self.assertIn("\ntest        10 ", text)
        self.assert_lines(experiment, "  size: 96 ", "  channels: 1 ")
        for word in ("val_fraction", "  flip", "  crop", "uneven"):
            self.assertNotIn(word, experiment)  # they may be letters

    def test_large_pictures_are_cut_and_mirrored_and_the_network_stays_quick_at_any_size(self):
        self.pictures("", {"a": 6, "b": 6}, side=96)
        self.assert_lines(self.init()[1], "  crop_scale: [0.35, 1] ", "  flip: true ", "depth: 18, stem: imagenet}", "# pretrained: {file: ")

    def test_pictures_that_a_table_names_and_options_of_the_dataset_are_taken(self):
        self.pictures("", {"cats": 8, "dogs": 8})
        self.put(cats__9=b"", **{"cats__x.png": b"\x89PNG\r\n\x1a\nbroken"})
        self.assertIn("cats/x.png: ", self.assert_refused("init", "photos"))
        text, experiment = self.init("dataset.skip_unreadable=true", "dataset.size=12", "dataset.crop_scale=[0.5, 1]")
        self.assertIn("1 unreadable", text)
        self.assert_lines(experiment, "  skip_unreadable: true  # as asked for\n", "  size: 12  # as asked for\n", "    - 0.5\n")
        self.assertNotIn("  size: 20", experiment)
        (self.folder / "photos.yaml").unlink()
        names = [f"{name}/{number}.png" for name in ("cats", "dogs") for number in range(8)]
        self.put(**{"labels.csv": "".join(["file,label\n", *(f"{name},{name[0]}\n" for name in names)]).encode()})
        self.assert_lines(self.init()[1], '  csv: "photos/labels.csv"\n')
        for words, text in ((["trainer.max_epochs=3"], "init takes options of the dataset alone"), (["dataset.resizes=3"], "did you mean resize?"),
                            (["--target", "y"], "are for a table")):
            self.assertIn(text, self.ddprun("init", "photos", "--out", "o.yaml", *words, code=2).err())

    def table(self, lines, name="grain.csv"):
        (self.folder / name).write_text("\n".join(lines) + "\n")

    @unittest.skipUnless(numpy, "there is no Python package numpy to read tables with")
    def test_a_table_becomes_standardized_arrays_with_the_names_of_its_classes(self):
        rows = [f"{n % 3 + n / 100};{1000 * (n % 3) + 7 * n};5;{('rye', 'oat', 'emmer')[n % 3]}" for n in range(60)]
        self.table(["width;mass;same;kind", *rows])
        said, experiment = self.init(place="grain.csv")
        self.assert_lines(said, "the target is kind, the last column", "60 of 60 rows", "its columns are separated by ';'")
        self.assertRegex(experiment, r"  mean: \[1\.\d+, 12\d\d(\.\d)?, 5\]  # of each column, over the training samples\n  std: \[0\.8\d*, 8\d\d\.?\d?, 1\]")
        self.assert_lines(experiment, '  class_names: "grain_arrays/classes.json"')
        for words in (["check", "grain.yaml"], ["grain.yaml", "launch.device=cpu", "run.dir=raw", "trainer.max_steps=1"]):
            self.assertIn("dataset: the columns have very different scales: the deviation of column 1",
                          self.ddprun(*words, "dataset.mean=0", "dataset.std=1").text())
        trained = self.ddprun("grain.yaml", "launch.device=cpu", "run.dir=run", "trainer.max_epochs=20")
        self.assertNotIn("different scales", trained.text())
        self.assertEqual(summary(self.folder / "run")["best"]["val/accuracy"], 1)
        shutil.rmtree(self.folder / "grain_arrays")  # new rows go through what the run has kept
        (self.folder / "new.npy").write_bytes(npy("<f4", "(2, 3)", struct.pack("<6f", 0, 0, 5, 2, 2100, 5)))
        self.ddprun("predict", "run", "--input", "new.npy", "--out", "p.csv")
        self.assertEqual([line.split(",")[2] for line in (self.folder / "p.csv").read_text().splitlines()[1:]], ["rye", "emmer"])

    @unittest.skipUnless(numpy, "there is no Python package numpy to read tables with")
    def test_a_table_of_values_becomes_a_regression(self):
        self.table(["a,b,y", *(f"{n},{n % 5},{n / 7}" for n in range(40)), ",1,2"])
        said, experiment = self.init("--drop-missing", place="grain.csv")
        self.assertIn("rows with a missing value: 1", said)
        self.assert_lines(experiment, "outputs: 1", "name: mse", "  mean: [", "val_fraction: 0.2")
        self.assertNotIn("cross_entropy", experiment)

    NUMBERS = [f"n{n}" for n in range(13)]
    TABLES = (
        (["a,name,town,y", *(f"{n},Ann,Rome,{n % 2}" for n in range(20))], "columns of words: name, town; --input 'a' names the columns of numbers"),
        ([",".join([*NUMBERS, "town", "y"]), *(",".join([*map(str, range(13)), "Rome", str(n % 2)]) for n in range(20))],
         f"--input '{','.join(NUMBERS)}' names the columns of numbers"),
        (["a,b,y", "1,,0", ",,1", *(f"{n},2,{n % 2}" for n in range(20))],
         "values are missing in b in 2, a in 1 rows, and 20 rows are whole; --drop-missing leaves"),
        (["a,y", *(f"{n},{7 + n % 2}" for n in range(20))], "--task classification makes them the classes"),
        (["a,y", *(f"{n},7" for n in range(20))], "the target is 7 in all rows: there is nothing to learn; --target names another column"),
        (["a,y", *(f"{n},rye" for n in range(20))], "error: all samples are of one class, rye; expected two at least"),
        (["a,y", "1,0", "2,1"], "error: 2 training samples are too few to learn from"),
    )  # fmt: skip

    @unittest.skipUnless(numpy, "there is no Python package numpy to read tables with")
    def test_a_table_that_cannot_be_learned_from_is_refused_once_with_all_its_columns(self):
        for lines, text in self.TABLES:
            with self.subTest(text):
                self.table(lines)
                message = self.assert_refused("init", "grain.csv")
                self.assertEqual(message.count("error: "), 1, message)
                self.assertIn(text, message)
                self.assertEqual([file.name for file in self.folder.glob("*grain*")], ["grain.csv"])
        self.assertIn("there is no such file; did you mean grain.csv?", self.assert_refused("init", "grian.csv"))
        self.assertIn("there is no column z; there are a, y", self.assert_refused("init", "grain.csv", "--target", "z"))

    def test_texts_become_a_language_model_however_short(self):
        self.put(**{"verses.txt": b"the cat sat on the mat, and the dog sat by the log\n" * 40, "more.md": b"and the mat sat on the log"})
        self.assert_lines(self.init()[1], "plugin: transformer", '    - "photos/more.md"\n    - "photos/verses.txt"\n', "  context: ")
        (self.folder / "line.txt").write_text("a few words of text!")
        self.assert_lines(self.init(place="line.txt")[1], "warmup: 1st", '    - "line.txt"\n')

    FOLDERS = {
        "empty": ({}, ["there are no files", "expected pictures, in FOLDER/<class>/<picture>"]),
        "one class": ({f"cats__{i}.png": png(8, (1, 2, 3)) for i in range(5)}, ["one class, cats", "two at least"]),
        "other files": ({"train.bin": bytes(8)}, ["neither a picture nor a text, but files such as train.bin", "`ddprun docs data`"]),
        "no class folders": ({"1.png": png(8, (1, 2, 3)), "2.png": png(8, (1, 2, 3))}, ["has no class folders, expected <class>/<picture>"]),
        "nested twice": ({f"all__{name}__1.png": png(8, (1, 2, 3)) for name in ("cats", "dogs")}, ["has one folder, all, with folders in it", "photos/all"]),
        "two of one split": ({f"{split}__a__1.png": png(8, (1, 2, 3)) for split in ("train", "val", "valid")}, ["val and valid are both the split val"]),
        "no picture": ({"cats__1.png": b"<html>", "dogs__1.png": png(8, (1, 2, 3))}, ["cats/1.png: "]),
        "a table": ({"iris.csv": b"a,b\n1,2\n"}, ["there is a table: name it itself: ddprun init ", "photos/iris.csv"]),
        "a name in no encoding": ({"b__1.png": png(8, (1, 2, 3))}, ["the class's name is not UTF-8; rename the folder"]),
    }  # fmt: skip

    def test_odd_folders_are_refused_with_what_was_expected(self):
        for name, (files, texts) in self.FOLDERS.items():
            with self.subTest(name):
                (self.folder / "photos").mkdir()
                self.put(**files)
                if "encoding" in name:
                    self.pictures("", {"a": 4, "b": 4})
                    os.rename(self.folder / "photos/a", bytes(self.folder) + b"/photos/\xff")
                message = self.assert_refused("init", "photos")
                self.assertEqual(message.count("ddprun: error: "), 1, message)
                self.assert_lines(message, *texts)
                self.assertEqual(list(self.folder.glob("*photos.yaml*")), [])
                (self.folder / "photos").rename(self.folder / name)
        self.assertIn("there is no such folder", self.assert_refused("init", "nowhere"))


if __name__ == "__main__":
    unittest.main()

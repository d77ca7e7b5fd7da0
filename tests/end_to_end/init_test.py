# SPDX-License-Identifier: MIT
"""`ddprun init FOLDER`: an experiment that passes `check` and trains, or one message that says what was expected."""

import io
import json
import os
import shutil
import struct
import tarfile
import unittest
import zlib

from command import DDPRUN, CommandTest, summary

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

    def init(self, *words):
        text = self.ddprun("init", "photos", *words).out()
        self.assertNotIn("Warning", text)
        self.ddprun("check", "photos.yaml")
        return text, (self.folder / "photos.yaml").read_text()

    def refused(self, *texts):
        message = self.assert_refused("init", "photos")
        self.assertEqual(message.count("ddprun: error: "), 1, message)
        for text in texts:
            self.assertIn(text, message)
        self.assertFalse((self.folder / "photos.yaml").exists())

    def test_names_that_mean_something_to_an_experiment_or_a_shell_mean_nothing(self):
        for name in ("${env:HOME}", "a b's #1: {x}", "null"):
            with self.subTest(name):
                for label in ("cats", "dogs"):
                    for number in range(6):
                        file = self.folder / name / label / f"{number}.png"
                        file.parent.mkdir(parents=True, exist_ok=True)
                        file.write_bytes(png(20, (90 * number // 6, 200, 7)))
                self.ddprun("init", name)
                composed = self.ddprun("--cfg", f"{name}.yaml").out()
                self.assertIn(name, composed.splitlines()[0])
                self.ddprun("check", f"{name}.yaml")
        (self.folder / "null").rename(self.folder / "a\nb")
        self.assertIn("has a control character in it", self.ddprun("init", "a\nb", code=2).err())

    def test_pictures_in_class_folders_train(self):
        self.pictures("", {"cats": 30, "dogs": 9})
        text, experiment = self.init()
        self.assertRegex(text, r"\ncats +2\d +\d")  # of train and val
        self.assertIn("times as many training samples as the smallest", text)
        for line in ("  root: photos\n", "  size: 20 ", "  val_fraction: 0.2 ", "monitor: val/accuracy", "# trainer: {sampling: {balance: class}}",
                     "  crop_padding: 4 ", "  flip: true ", "metrics: [accuracy, confusion]", "predictions: {"):
            self.assertIn(line, experiment)
        self.assertRegex(text, r"\ncats +24 +6\ndogs +7 +2\n")  # each class has its share
        self.assertNotIn("channels", experiment)
        self.ddprun("photos.yaml", "trainer.max_steps=6", "launch.device=cpu", "run.dir=run")
        self.assertEqual(summary(self.folder / "run")["steps"], 6)
        self.assertIn("photos.yaml exists already, and is not overwritten", self.ddprun("init", "photos", code=2).err())

    def test_splits_and_grey_pictures_are_seen(self):
        for split in ("train", "val", "test"):
            self.pictures(f"{split}__", {"a": 5, "b": 5}, side=100, channels=1)
        text, experiment = self.init()
        self.assertIn("\ntest        10 ", text)
        self.assertIn("  size: 96 ", experiment)
        self.assertIn("  channels: 1 ", experiment)
        self.assertNotIn("val_fraction", experiment)
        for word in ("flip", "crop"):
            self.assertNotIn(f"  {word}", experiment)  # they may be letters

    def test_large_pictures_are_cut_and_mirrored_and_the_network_stays_quick_at_any_size(self):
        self.pictures("", {"a": 6, "b": 6}, side=96)
        _, experiment = self.init()
        for line in ("  crop_scale: [0.35, 1] ", "  flip: true ", "depth: 18, stem: imagenet}", "# pretrained: {file: "):
            self.assertIn(line, experiment)

    def test_options_of_the_dataset_are_taken_and_kept(self):
        self.pictures("", {"cats": 8, "dogs": 8})
        self.put(cats__9=b"", **{"cats__x.png": b"\x89PNG\r\n\x1a\nbroken"})
        self.refused("cats/x.png: ", "dataset.skip_unreadable=true")
        self.assertIn("1 unreadable", self.init("dataset.skip_unreadable=true")[0])
        self.assertIn("  skip_unreadable: true  # as asked for", (self.folder / "photos.yaml").read_text())
        for words, text in ((["trainer.max_epochs=3"], "init takes options of the dataset alone"), (["dataset.resizes=3"], "did you mean resize?")):
            self.assertIn(text, self.ddprun("init", "photos", "--out", "o.yaml", *words, code=2).err())
        self.assertIn("are for a table", self.ddprun("init", "photos", "--out", "o.yaml", "--target", "y", code=2).err())

    def table(self, lines, name="grain.csv"):
        (self.folder / name).write_text("\n".join(lines) + "\n")

    def refused_table(self, text, *words, name="grain.csv"):
        message = self.assert_refused("init", name, *words)
        self.assertEqual(message.count("error: "), 1, message)
        self.assertIn(text, message)
        self.assertEqual([file.name for file in self.folder.glob("grain*") if file.name != name], [])

    @unittest.skipUnless(numpy, "there is no Python package numpy to read tables with")
    def test_a_table_becomes_standardized_arrays_with_the_names_of_its_classes(self):
        rows = [f"{n % 3 + n / 100};{1000 * (n % 3) + 7 * n};5;{('rye', 'oat', 'emmer')[n % 3]}" for n in range(60)]
        self.table(["width;mass;same;kind", *rows])
        said = self.ddprun("init", "grain.csv").out()
        for text in ("the target is kind, the last column", "60 of 60 rows", "its columns are separated by ';'"):
            self.assertIn(text, said)
        experiment = (self.folder / "grain.yaml").read_text()
        self.assertRegex(experiment, r"  mean: \[1\.\d+, 12\d\d(\.\d)?, 5\]  # of each column, over the training samples\n  std: \[0\.8\d*, 8\d\d\.?\d?, 1\]")
        self.assertIn("  class_names: grain_arrays/classes.json", experiment)
        checked = self.ddprun("check", "grain.yaml")
        self.assertNotIn("different scales", checked.text())
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
    def test_a_table_that_cannot_be_learned_from_is_refused_once_with_all_its_columns(self):
        self.table(["a,name,town,y", *(f"{n},Ann,Rome,{n % 2}" for n in range(20))])
        self.refused_table("columns of words: name, town; --input 'a' names the columns of numbers")
        numbers = [f"n{n}" for n in range(13)]
        self.table([",".join([*numbers, "town", "y"]), *(",".join([*map(str, range(13)), "Rome", str(n % 2)]) for n in range(20))])
        self.refused_table(f"--input '{','.join(numbers)}' names the columns of numbers")
        self.table(["a,b,y", "1,,0", ",,1", *(f"{n},2,{n % 2}" for n in range(20))])
        self.refused_table("values are missing in 2 columns: b in 2, a in 1 rows, and 20 rows are whole; --drop-missing leaves")
        self.assertIn("rows with a missing value: 2", self.ddprun("init", "grain.csv", "--drop-missing", "--out", "dropped.yaml").out())
        self.table(["a,y", *(f"{n},{7 + n % 2}" for n in range(20))])
        self.refused_table("--task classification makes them the classes", name="grain.csv")
        self.table(["a,y", *(f"{n},7" for n in range(20))])
        self.refused_table("the target is 7 in all rows: there is nothing to learn; --target names another column")
        self.table(["a,y", *(f"{n},rye" for n in range(20))])
        self.refused_table("error: grain.csv: all samples are of one class; expected two at least")
        self.assertIn("there is no such file; did you mean grain.csv?", self.assert_refused("init", "grian.csv"))
        self.refused_table("there is no column z; there are a, y", "--target", "z")

    def test_arrays_of_values_become_a_regression(self):
        self.put(**{"X.npy": npy("<f4", "(40, 3)", struct.pack("<120f", *range(120))), "y.npy": npy("<f4", "(40,)", struct.pack("<40f", *range(40)))})
        _, experiment = self.init()
        for line in ("outputs: 1", "name: mse", "  mean: [", "val_fraction: 0.2"):
            self.assertIn(line, experiment)

    def test_a_text_becomes_a_language_model(self):
        self.put(**{"verses.txt": b"the cat sat on the mat, and the dog sat by the log\n" * 40})
        self.assertIn("plugin: transformer", self.init()[1])

    def test_a_very_short_text_becomes_an_experiment_too(self):
        self.put(**{"line.txt": b"a few words of text!"})
        self.assertIn("warmup: 1st", self.init()[1])

    def test_shards_train_on_pictures(self):
        for split, count in (("train-0", 20), ("train-1", 20), ("val-0", 6)):
            members = io.BytesIO()
            with tarfile.open(fileobj=members, mode="w") as tar:
                for number in range(count):
                    for ending, content in (("png", png(9, (200 * (number % 2), number, 7))), ("cls", b"%d" % (number % 2))):
                        member = tarfile.TarInfo(f"{split}{number}.{ending}")
                        member.size = len(content)
                        tar.addfile(member, io.BytesIO(content))
            self.put(**{f"{split}.tar": members.getvalue()})
        _, experiment = self.init()
        for line in ("plugin: shards", "  train: photos/train-*.tar\n", "  val: photos/val-0.tar\n", "  size: 224 "):
            self.assertIn(line, experiment)
        self.assertNotIn("val_fraction", experiment)

    def test_tokens_become_a_language_model(self):
        for split, count in (("train", 2000), ("val", 300)):
            self.put(**{f"{split}.bin": struct.pack(f"<{count}H", *(n % 7 for n in range(count))),
                        f"{split}.bin.json": json.dumps({"dtype": "uint16", "tokens": count, "vocabulary": 9}).encode()})
        text, experiment = self.init()  # which warns of no token that does not occur
        self.assertNotIn("times as many", text)
        for line in ("plugin: tokens", "    - photos/train.bin\n", "  context: 62 ", "plugin: transformer"):
            self.assertIn(line, experiment)

    def test_the_files_of_mnist_are_known_by_their_names(self):
        for name, count in (("train", 60), ("t10k", 20)):
            self.put(**{f"{name}-images-idx3-ubyte": struct.pack(">4I", 0x803, count, 28, 28) + bytes(range(16)) * (49 * count),
                        f"{name}-labels-idx1-ubyte": struct.pack(">2I", 0x801, count) + bytes(i % 10 for i in range(count))})
        _, experiment = self.init()
        for line in ("plugin: mnist", "validation: 6 ", "download: false"):
            self.assertIn(line, experiment)

    def test_a_dataset_of_ones_own_is_asked(self):
        (self.folder / "mine").mkdir()
        shutil.copy(DDPRUN.parent.parent / "tests/plugin_fixtures/recognizes_spectra.so", self.folder / "mine")
        own = {"DDPRUN_PLUGIN_PATH": f"{self.folder}/mine"}
        self.put(**{"vega.spc": b"", "sun.spc": b""})
        self.ddprun("init", "photos", env=own)
        self.ddprun("check", "photos.yaml", env=own)
        experiment = (self.folder / "photos.yaml").read_text()
        for line in ("plugin: spectra", "  root: photos\n", "plugin: mlp"):
            self.assertIn(line, experiment)
        self.put(**{"x.npy": npy("<f4", "(1, 1)", bytes(4))})
        message = self.ddprun("init", "photos", "--out", "other.yaml", env=own, code=2).err()
        for text in ("a mixture of ", "2 spectral files, such as sun.spc", "1 array, such as x.npy", "spectra", "tensors"):
            self.assertIn(text, message)

    def test_odd_folders_are_refused_with_what_was_expected(self):
        picture = png(8, (1, 2, 3))
        short = {"x.npy": npy("<f4", "(4, 1)", bytes(16)), "y.npy": npy("<i8", "(3,)", bytes(24))}
        for name, files, texts in (
                ("empty", {}, ["there are no files", "expected data for one of these datasets:\n  ", "  image_folder: your own PNG, JPEG"]),
                ("one class", {f"cats__{i}.png": picture for i in range(5)}, ["one class, cats", "two at least"]),
                ("no training shards", {"val-000000.tar": b"", "val-000001.tar": b""}, ["2 shards, such as val-000000.tar: no file is of train, and val-000000.tar is of val"]),
                ("shards that no pattern names", {"train__0.tar": b"", "train1.tar": b""}, ["no pattern names train/0.tar, train1.tar"]),
                ("numbers without a note", {"train.bin": bytes(8)}, ["1 file, such as train.bin, of kinds that no dataset reads", "  tokens: next tokens"]),
                ("a mixture", {"cats__1.png": picture, "x.npy": b""}, ["a mixture of 1 picture, such as cats/1.png, and 1 array, such as x.npy"]),
                ("no class folders", {"1.png": picture, "2.png": picture}, ["2 pictures, such as 1.png: they lie in no class folders", "FOLDER/<class>/<picture>"]),
                ("nested twice", {"all__cats__1.png": picture, "all__dogs__1.png": picture}, ["has one folder, all, with folders in it", "photos/all"]),
                ("two of one split", {f"{split}__a__1.png": picture for split in ("train", "val", "valid")}, ["val and valid are both the split val"]),
                ("arrays of two lengths", short, ["y.npy: has 3 rows, but ", "x.npy has 4"]),
                ("arrays without a name", {"a.npy": b"", "b.npy": b""}, ["a.npy does not say", "expected train.safetensors, or input.npy and target.npy"]),
                ("no picture", {"cats__1.png": b"<html>", "dogs__1.png": picture}, ["cats/1.png: "]),
                ("a table", {"iris.csv": b"a,b\n1,2\n"}, ["1 table, such as iris.csv: name one of them: ddprun init ", "photos/iris.csv"]),
                ("a name in no encoding", {}, ["the class's name is not UTF-8; rename the folder"])):
            with self.subTest(name):
                (self.folder / "photos").mkdir()
                self.put(**files)
                if "encoding" in name:
                    self.pictures("", {"a": 4, "b": 4})
                    os.rename(self.folder / "photos/a", bytes(self.folder) + b"/photos/\xff")
                self.refused(*texts)
                (self.folder / "photos").rename(self.folder / name)
        self.assertIn("there is no such folder", self.assert_refused("init", "nowhere"))


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""tools/convert: what it writes is what the source holds, by the readers of those formats, and ddprun trains on it."""

import contextlib
import io
import json
import os
import pathlib
import signal
import sys
import unittest
import unittest.mock

import datasets
import numpy
import PIL.Image
import pyarrow
import pyarrow.parquet
import tokenizers
import webdataset
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/end_to_end"), str(ROOT / "tools/lib")]

from command import CommandTest  # noqa: E402
from convert.__main__ import main  # noqa: E402
from tooling.start import run_tool  # noqa: E402

TOOL = ROOT / "tools/convert"
HELD_AFTER_TWO_SHARDS = """
import pathlib, runpy, signal, sys
tool = pathlib.Path(sys.argv[1])
del sys.argv[0]
sys.path.insert(0, str(tool.parent / "lib"))
import tooling.place
from convert.shards import Shards
closed = Shards.close
def close(self):
    closed(self)
    if self.count == 2:
        signal.pause()
Shards.close = close
runpy.run_module("convert", run_name="__main__")
"""


class ConvertTest(CommandTest):
    def setUp(self):
        super().setUp()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, "/")

    def convert(self, *words, code=0):
        running = self.start_program(sys.executable, "-B", TOOL, *words)
        self.assertEqual(running.wait(), code, running.text())
        self.assertNotIn("Traceback", running.err())
        return running

    def refused(self, text, *words):
        """In this process: a dozen others would only import the same packages."""
        before, err = set(self.folder.rglob("*")), io.StringIO()
        with unittest.mock.patch("sys.argv", ["convert", *words, "--out", "refused"]), contextlib.redirect_stderr(err):
            with self.assertRaises(SystemExit) as ended:
                run_tool(main, "convert")
        self.assertEqual(ended.exception.code, 2)
        self.assertIn(text, err.getvalue())
        left = {path for path in set(self.folder.rglob("*")) - before if path.suffix and not path.name.startswith(".")}
        self.assertEqual(left, set())

    def pictures(self, folder, count=6):
        """Returns {class: [bytes]} of what it draws."""
        made = {}
        for label, name in enumerate(("cat", "dog")):
            pathlib.Path(folder, name).mkdir(parents=True)
            for number in range(count):
                file = pathlib.Path(folder, name, f"{number}.png")
                PIL.Image.new("RGB", (8, 8), (40 * number, 100 * label, 7)).save(file)
                made.setdefault(name, []).append(file.read_bytes())
        return made

    def samples(self, pattern):
        """What the webdataset package reads."""
        files = sorted(map(str, self.folder.glob(pattern)))
        return [(one["__key__"], one["png"], int(one["cls"])) for one in webdataset.WebDataset(files, shardshuffle=False)]


class Shards(ConvertTest):
    def test_folders_of_pictures_are_read_by_webdataset_and_trained_on(self):
        made = {split: self.pictures(f"photos/{split}", count) for split, count in (("train", 6), ("val", 2))}
        told = self.convert("shards", "photos", "--out", "out", "--shard-size", "8000").out()
        self.assertIn("val: 4 pictures of 2 classes in 1 shards", told)
        self.assertGreater(len(list(self.folder.glob("out/train-*.tar"))), 1)
        for split, classes in made.items():
            expected = [(f"{name}/{number}", data, label) for label, name in enumerate(classes) for number, data in enumerate(classes[name])]
            self.assertEqual(self.samples(f"out/{split}-*.tar"), expected)
        self.assertEqual(json.loads(pathlib.Path("out/classes.json").read_text()), ["cat", "dog"])
        shard = next(self.folder.glob("out/val-*.tar"))
        index, data = load_file(f"{shard}.index"), shard.read_bytes()
        found = [data[begin : begin + size] for begin, size in zip(index["offset"], index["bytes"])]
        self.assertEqual(found, made["val"]["cat"] + made["val"]["dog"])
        self.assertEqual((index["label"].tolist(), index["shard_bytes"].tolist()), ([0, 0, 1, 1], [len(data)]))
        stamps = {file: file.stat().st_mtime_ns for file in self.folder.glob("out/*")}
        pathlib.Path("run.yaml").write_text("model: mlp\ndataset: {plugin: shards, train: 'out/train-*.tar', val: 'out/val-*.tar', size: 8}\n"
                                            "optimizer: sgd\nlaunch: {device: cpu, threads: 1}\n")  # fmt: skip
        self.assertRegex(self.ddprun("data", "run.yaml").out(), r"cat +6 +2")
        self.ddprun("run.yaml", "trainer.max_steps=2", "trainer.global_batch=4", "run.dir=run")
        self.assertEqual({file: file.stat().st_mtime_ns for file in self.folder.glob("out/*")}, stamps)  # its indexes were taken

    def test_parquet_and_hugging_face_give_the_same_shards(self):
        made = self.pictures("photos")
        rows = [(data, name) for name, many in made.items() for data in many]
        table = pyarrow.table({"image": [data for data, _ in rows], "label": [name for _, name in rows]})
        pyarrow.parquet.write_table(table, "a.parquet")
        features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
        columns = {"image": [{"bytes": data, "path": None} for data, _ in rows], "label": [name == "dog" for _, name in rows]}
        saved = datasets.Dataset.from_dict(columns, features=features)
        datasets.DatasetDict({"train": saved, "validation": saved}).save_to_disk("saved")
        self.convert("shards", "a.parquet", "--out", "parquet")
        self.convert("shards", "saved", "--out", "hugging")
        tar = (self.folder / "parquet/train-000000.tar").read_bytes()
        for split in ("train", "val"):
            self.assertEqual((self.folder / f"hugging/{split}-000000.tar").read_bytes(), tar)
        self.assertEqual([(data, label) for _, data, label in self.samples("parquet/*.tar")], [(data, int(name == "dog")) for data, name in rows])

    def test_what_is_wrong_is_named(self):
        self.pictures("p/train")
        self.pictures("p/val")
        pathlib.Path("p/val/dog").rename("p/val/cow")
        self.refused("p/val has no class dog", "shards", "p")
        pathlib.Path("p/val/cow").rename("p/val/dog")
        pathlib.Path("p/train/cat/0.jpg").write_bytes(b"\xff\xd8\xff")
        self.refused("p/train/cat/0.png and p/train/cat/0.jpg have one name", "shards", "p")
        pathlib.Path("p/train/cat/0.jpg").rename("p/train/cat/notes.txt").write_text("no picture")
        self.refused("p/train/cat/notes.txt: it is not a JPEG, PNG or WebP picture", "shards", "p")
        pathlib.Path("p/train/cat/notes.txt").unlink()
        pathlib.Path("p/train/empty").mkdir()
        self.refused("p/train/empty: the class empty is empty", "shards", "p")
        pyarrow.parquet.write_table(pyarrow.table({"picture": [b""], "label": [1]}), "a.parquet")
        self.refused("a.parquet: there is no column image; there are picture, label", "shards", "a.parquet")
        pathlib.Path("torn.parquet").write_bytes(pathlib.Path("a.parquet").read_bytes()[:-9])
        self.refused("torn.parquet: ", "shards", "torn.parquet")
        self.refused("no?where: no such file", "shards", "no\x1bwhere")  # a terminal would obey it
        pathlib.Path("p/train/empty").rmdir()
        self.convert("shards", "p", "--out", "out")
        self.assertIn("is there already", self.convert("shards", "p", "--out", "out", code=2).err())

    def test_a_stop_in_the_middle_leaves_nothing_under_a_final_name(self):
        self.pictures("p")
        words = ["shards", "p", "--out", "out", "--shard-size", "4000"]
        held = self.start_program(sys.executable, "-B", "-c", HELD_AFTER_TWO_SHARDS, TOOL, *words)
        self.wait_until(lambda: len(list(self.folder.glob("out/*.tar.part"))) > 1, "two shards", held)
        self.assertIn("another tools/convert is writing to it", self.convert(*words, code=2).err())
        self.assertEqual(list(self.folder.glob("out/*.tar")), [])
        held.send(signal.SIGINT)
        self.assertEqual(held.wait(), 130, held.text())
        self.assertEqual(list(self.folder.glob("out/*")), [])


class Arrays(ConvertTest):
    def test_tables_become_arrays(self):
        pathlib.Path("a.csv").write_text("x,y,kind\n1,2.5,b\n3,4,a\n")
        self.convert("arrays", "train=a.csv", "val=a.csv", "--out", "out", "--target", "kind")
        found = load_file("out/val.safetensors")
        self.assertEqual((found["input"].tolist(), found["target"].tolist()), ([[1, 2.5], [3, 4]], [1, 0]))
        self.assertEqual(json.loads(pathlib.Path("out/classes.json").read_text()), ["a", "b"])
        pyarrow.parquet.write_table(pyarrow.table({"v": [[[1.0, 2.0]], [[3.0, 4.0]]], "price": [0.5, 1.5]}), "b.parquet")
        self.convert("arrays", "b.parquet", "--out", "values", "--target", "price")
        found = load_file("values/train.safetensors")
        self.assertEqual((found["input"].shape, found["target"].tolist()), ((2, 1, 2), [[0.5], [1.5]]))
        self.assertEqual((found["input"].dtype, found["target"].dtype), (numpy.float32, numpy.float32))

    def test_what_is_wrong_is_named(self):
        pathlib.Path("a.csv").write_text("x,kind\n1,b\nmany,a\n")
        self.refused("a.csv:3: the column x holds 'many', which is no number", "arrays", "a.csv", "--target", "kind")
        self.refused("a.csv: there is no column y", "arrays", "a.csv", "--target", "y")
        for name, kinds in (("b.csv", "ab"), ("c.csv", "bc")):
            pathlib.Path(name).write_text("x,kind\n" + "".join(f"1,{kind}\n" for kind in kinds))
        self.refused("c.csv:3: the class c is not one of val's", "arrays", "val=b.csv", "train=c.csv", "--target", "kind")
        pathlib.Path("a.csv").write_text("x,kind\n1,b\n2\n")
        self.refused("a.csv:3: it has 1 values, and the first line names 2 columns", "arrays", "a.csv", "--target", "kind")


class Tokens(ConvertTest):
    def test_texts_become_the_tokens_of_their_tokenizer(self):
        text = (ROOT / "docs/data.md").read_text()
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, special_tokens=["<end>"], show_progress=False)
        tokenizer.train_from_iterator([text], trainer)
        tokenizer.save("t.json")
        pathlib.Path("a.txt").write_text(text)
        pyarrow.parquet.write_table(pyarrow.table({"text": ["one two", "three"]}), "b.parquet")
        self.convert("tokens", "train=a.txt", "val=b.parquet", "--out", "out", "--tokenizer", "t.json", "--separator", "<end>")
        self.assertEqual(numpy.fromfile("out/train.bin", "<u2").tolist(), [*tokenizer.encode(text).ids, 0])
        self.assertEqual(numpy.fromfile("out/val.bin", "<u2").tolist(), [*tokenizer.encode("one two").ids, 0, *tokenizer.encode("three").ids, 0])
        note = json.loads(pathlib.Path("out/train.bin.json").read_text())
        size = os.path.getsize("out/train.bin") // 2
        self.assertEqual(note, {"dtype": "uint16", "tokens": size, "vocabulary": tokenizer.get_vocab_size(), "tokenizer": "tokenizer.json",
                                "separator": tokenizer.token_to_id("<end>")})
        pathlib.Path("run.yaml").write_text("model: transformer\ndataset: {plugin: tokens, train: out/train.bin, context: 16}\noptimizer: sgd\n"
                                            "launch: {device: cpu, threads: 1}\n")  # fmt: skip
        self.ddprun("run.yaml", "trainer.max_steps=2", "trainer.global_batch=4", "run.dir=run")
        self.refused("--separator <no>: t.json has no such token", "tokens", "a.txt", "--tokenizer", "t.json", "--separator", "<no>")
        sparse = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 70000, "?": 1}, unk_token="?"))
        sparse.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        sparse.enable_truncation(2)
        sparse.enable_padding(length=9)
        sparse.save("sparse.json")
        pathlib.Path("c.txt").write_text("a b c a b")
        told = self.convert("tokens", "c.txt", "--out", "sparse", "--tokenizer", "sparse.json").out()
        self.assertIn("changed: tokens that the tokenizer does not know: 1, the first is c.txt", told)
        self.assertEqual(numpy.fromfile("sparse/train.bin", "<u4").tolist(), [0, 70000, 1, 0, 70000])
        self.assertEqual(json.loads(pathlib.Path("sparse/train.bin.json").read_text())["vocabulary"], 70001)
        pathlib.Path("bad.txt").write_bytes(b"a\xff")
        self.refused("bad.txt:1: it is not UTF-8: the byte 0xFF", "tokens", "bad.txt", "--tokenizer", "t.json")


if __name__ == "__main__":
    unittest.main()

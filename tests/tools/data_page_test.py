# SPDX-License-Identifier: MIT
"""The lines of Python in docs/data.md make what ddprun trains on of folders, CSV, Parquet and Hugging Face's data sets: what they write
is what the source holds. A block is run once for each of its lines that begin alike."""

import json
import os
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/end_to_end"))

from command import CommandTest  # noqa: E402

PAGE = (ROOT / "docs/data.md").read_text()
REST = "optimizer: sgd\nlaunch: {device: cpu, threads: 1}\ntrainer: {max_steps: 2, global_batch: 4}\n"


class DataPage(CommandTest):
    def setUp(self):
        super().setUp()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, "/")
        pathlib.Path("data").mkdir()

    def section(self, heading):
        return re.search(rf"^## {heading}\n(.*?)^## ", PAGE, re.M | re.S)[1]

    def choices(self, heading, name):
        """Yields the block of a section with each of its lines "NAME = ...", without the others."""
        block = re.search(r"^```python\n(.*?)^```", self.section(heading), re.M | re.S)[1]
        chosen = [line for line in block.splitlines() if line.startswith(f"{name} = ")]
        self.assertGreater(len(chosen), 1)
        for one in chosen:
            yield "\n".join(line for line in block.splitlines() if line == one or line not in chosen)

    def run_lines(self, lines):
        try:
            exec(lines, {})
        except ImportError as error:
            self.skipTest(f"there is no Python package {error.name}")

    def package(self, name):
        try:
            return __import__(name)
        except ImportError:
            self.skipTest(f"there is no Python package {name}")

    def train(self, experiment, *words):
        pathlib.Path("run.yaml").write_text(experiment + REST)
        self.ddprun("run.yaml", *words)

    def test_pictures_become_shards(self):
        datasets, pandas, Image = self.package("datasets"), self.package("pandas"), self.package("PIL.Image").Image
        splits = {split: [(self.picture(Image, split, label, number), label) for label in (0, 1) for number in range(count)]
                  for split, count in (("train", 6), ("val", 2))}  # fmt: skip
        features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
        saved = {}
        for split, rows in splits.items():
            pictures, labels = map(list, zip(*rows, strict=True))
            pandas.DataFrame({"label": labels, "image": pictures}).to_parquet(f"{split}.parquet")
            columns = {"image": [{"bytes": picture, "path": None} for picture in pictures], "label": labels}
            saved[split] = datasets.Dataset.from_dict(columns, features=features)
        datasets.DatasetDict(saved).save_to_disk("saved")
        (experiment,) = re.findall(r"```yaml\n(.*?)```", self.section("Shards"), re.S)
        for lines in self.choices("Shards", "pictures"):
            for split, rows in splits.items():
                self.run_lines(lines.replace("train", split))
                self.assertEqual(self.samples(split), rows)
            reported = ("dataset.train=data/train-*.tar", "dataset.size=8")
            self.train(experiment + "model: mlp\n", *reported)
            self.assertRegex(self.ddprun("data", "run.yaml", *reported).out(), r"\n1 +6 +2\n")

    def picture(self, image, split, label, number):
        file = pathlib.Path("photos", split, ("cat", "dog")[label], f"{number}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        image.new("RGB", (8, 8), (40 * number, 100 * label, 7)).save(file)
        return file.read_bytes()

    def samples(self, split):
        files = sorted(map(str, pathlib.Path().glob(f"data/{split}-*.tar")))
        read = self.package("webdataset").WebDataset(files, shardshuffle=False)
        return [(one["jpg"], int(one["cls"])) for one in read]

    def test_texts_become_the_tokens_of_their_tokenizer(self):
        tokenizers, pandas, numpy = self.package("tokenizers"), self.package("pandas"), self.package("numpy")
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
        end = "<|endoftext|>"
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, special_tokens=[end], show_progress=False)
        tokenizer.train_from_iterator([PAGE], trainer)
        tokenizer.save("tokenizer.json")
        texts = [PAGE, "one two"]
        pathlib.Path("books").mkdir()
        for number, text in enumerate(texts):
            pathlib.Path(f"books/{number}.txt").write_text(text)
        pandas.DataFrame({"text": texts}).to_parquet("books.parquet")
        expected = [token for text in texts for token in [*tokenizer.encode(text).ids, tokenizer.token_to_id(end)]]
        experiment = re.search(r"```yaml\n(.*?)```", self.section("Tokens"), re.S)[1]
        for lines in self.choices("Tokens", "texts"):
            for split in ("train", "val"):
                self.run_lines(lines.replace("train", split))
                self.assertEqual(numpy.fromfile(f"data/{split}.bin", "<u2").tolist(), expected)
            note = json.loads(pathlib.Path("data/train.bin.json").read_text())
            self.assertEqual(note, {"dtype": "uint16", "tokens": len(expected), "vocabulary": tokenizer.get_vocab_size(), "separator": 0})
            self.train(experiment, "dataset.context=16", "dataset.documents=true")

    def test_tables_become_arrays_of_classes_and_of_values(self):
        datasets, pandas, numpy = self.package("datasets"), self.package("pandas"), self.package("numpy")
        numbers = pandas.DataFrame({"width": [1.0, 2.5, 3.0, 4.0, 5.0], "mass": [7, 6, 5, 4, 3]})
        words = numbers.assign(kind=["rye", "oat", "rye", "oat", "rye"])
        values = numbers.assign(kind=[0.5, 1.5, 2.5, 3.5, 4.5])
        of_values = re.search(r"# values: (.*)", self.section("Tables"))[1]
        for table, target in ((words, [1, 0, 1, 0, 1]), (values, values["kind"].tolist())):
            table.to_csv("train.csv", index=False)
            table.to_parquet("train.parquet")
            datasets.DatasetDict({"train": datasets.Dataset.from_pandas(table)}).save_to_disk("saved")
            for lines in self.choices("Tables", "table"):
                self.run_lines(lines if table is words else lines.replace('table["kind"].map(names.index)', of_values))
                found = [numpy.load(f"data/train_{name}.npy") for name in ("input", "target")]
                self.assertEqual([array.tolist() for array in found], [numbers.to_numpy().tolist(), target])
                self.assertEqual([array.dtype for array in found], ["float32", "int64" if table is words else "float32"])
                command = re.search(r"ddprun experiments/mine.yaml (model=.*)", self.section("Tables"))[1].replace('"', "").split()
                self.train("", *command, *(() if table is words else ("objective=mse", "model.outputs=1")))


if __name__ == "__main__":
    unittest.main()

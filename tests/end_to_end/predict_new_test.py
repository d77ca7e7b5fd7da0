# SPDX-License-Identifier: MIT
"""`ddprun predict RUN --input`: new files, without labels, predicted as those of the run's own splits."""

import csv
import shutil
import struct
import unittest

from browser import data_of
from command import SMALL, CommandTest
from init_test import npy, png

COLOURS = {"blue": (20, 20, 230), "green": (20, 230, 20), "red": (230, 20, 20)}
SIDE = 8


class PredictNew(CommandTest):
    def rows(self, name):
        with open(self.folder / name, newline="") as file:
            return list(csv.DictReader(file))

    def picture(self, name, colour, change=0):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(SIDE, [value + change for value in colour]))

    def train(self, dataset, *words):
        (self.folder / "e.yaml").write_text(
            f"seed: 3\nmodel: {{plugin: mlp, hidden: 16}}\ndataset: {dataset}\noptimizer: {{plugin: sgd, lr: 0.1}}\n"
            "trainer: {max_epochs: 5, global_batch: 6}\nlaunch: {device: cpu, threads: 1, workers: 1}\n")
        self.ddprun("e.yaml", "run.dir=run", *words)

    def train_on_pictures(self):
        for split in ("train", "test"):
            for name, colour in COLOURS.items():
                for number in range(7):
                    self.picture(f"data/{split}/{name}/{number}.png", colour, number + (split == "test"))
        self.train(f"{{plugin: image_folder, root: data, size: {SIDE}}}")

    def refuse(self, *words):
        message = self.assert_refused("predict", "run", *words, "--out", "no.csv")
        self.assertEqual(list(self.folder.glob("no.csv*")), [])
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        return message

    def test_pictures_are_predicted_as_those_of_a_split_in_the_order_given_at_any_number_of_workers(self):
        self.train_on_pictures()
        self.ddprun("predict", "run", "--out", "split.csv")
        for workers in (1, 2):
            said = self.ddprun("predict", "run", f"launch.workers={workers}", "trainer.eval_batch=4", "--input",
                               "data/test/*/*.png", "--out", f"p{workers}.csv").out()
            self.assertIn(f"p{workers}.csv: 21 samples of 21 files\n", said)
        self.assertEqual((self.folder / "p1.csv").read_bytes(), (self.folder / "p2.csv").read_bytes())
        split, new = self.rows("split.csv"), self.rows("p1.csv")
        self.assertEqual(list(new[0]), ["index", "file", "guess", *(f"score_{name}" for name in COLOURS)])
        for known, row in zip(split, new, strict=True):
            self.assertEqual(row.pop("file").split("/")[2], known.pop("truth"))
            self.assertEqual(row["index"], known["index"])
            self.assertEqual(row["guess"], known["guess"])
            for name in COLOURS:
                self.assertAlmostEqual(float(row[f"score_{name}"]), float(known[f"score_{name}"]), places=6)
        for name in ("b", "a, é"):
            self.picture(f"new/{name}/1.png", COLOURS["red" if name == "b" else "green"], 3)
        self.ddprun("predict", "run", "--input", "new/b/1.png", "--input", "new/{a,b}*/1.png", "--out", "names.csv")
        self.assertEqual([(row["file"], row["guess"]) for row in self.rows("names.csv")],
                         [("new/b/1.png", "red"), ("new/a, é/1.png", "green"), ("new/b/1.png", "red")])

    def test_samples_of_a_split_are_named_by_their_files_and_a_page_shows_the_mistakes(self):
        self.train_on_pictures()
        self.picture("data/test/red/1.png", COLOURS["blue"])  # which the network takes for blue
        said = self.ddprun("predict", "run", "--out", "p.csv", "--html", "p.html").out()
        self.assertIn("p.html: the worst of them", said)
        rows = self.rows("p.csv")
        self.assertEqual(list(rows[0])[:4], ["index", "file", "truth", "guess"])
        self.assertEqual([row["file"] for row in rows if row["truth"] != row["guess"]], [str(self.folder / "data/test/red/1.png")])
        sheet = data_of(self.folder / "p.html")["sheet"]
        self.assertEqual([tile[:2] for tile in sheet["tiles"]], [["Samples", "21"], ["Correct", "95.24 %"], ["Misclassified", "1"]])
        shown = sheet["sections"][0]["predicted"]["rows"]
        self.assertTrue(shown[0]["file"].endswith("red/1.png"))
        self.assertTrue(shown[0]["image"].startswith("data:image/png;base64,"))
        self.assertEqual(len(shown), 21)
        self.ddprun("predict", "run", "--input", "data/test/*/2.png", "--html", "new.html")
        self.assertIn("p.csv", self.assert_refused("predict", "run", "--html", "p.csv"))
        self.assertIn("where to? --out", self.assert_refused("predict", "run"))

    def test_new_files_need_no_training_data(self):
        self.train_on_pictures()
        self.ddprun("predict", "run", "--input", "data/test/red/*.png", "--out", "before.csv")
        (self.folder / "data/test/red").rename(self.folder / "red")
        shutil.rmtree(self.folder / "data")
        self.ddprun("predict", "run", "--input", "red/*.png", "--out", "p.csv", "--html", "p.html")
        self.assertEqual([(row["guess"], row["score_red"]) for row in self.rows("p.csv")],
                         [(row["guess"], row["score_red"]) for row in self.rows("before.csv")])
        self.ddprun("export", "run", "--raw", "--out", "m.ts")  # and how pictures become inputs is noted too
        self.assertIn("if they have moved, dataset.KEY=PLACE says where to; `ddprun predict --input FILES` takes new files",
                      self.assert_refused("predict", "run", "--split", "val", "--out", "q.csv"))

    def test_ink_on_paper_is_informed_of_where_the_training_pictures_are_light_on_dark(self):
        self.ddprun(*SMALL, "run.dir=run")
        for name, brightness in (("ink", 225), ("chalk", 30)):
            (self.folder / f"{name}.png").write_bytes(png(28, (brightness,), channels=1))
        said = self.ddprun("predict", "run", "--input", "*.png", "--out", "p.csv").err()
        self.assertIn("the brightness of 1 of 2 pictures is opposite to that of the training pictures: these are light on dark", said)
        self.assertNotIn("opposite", self.ddprun("predict", "run", "--input", "chalk.png", "--out", "c.csv").text())

    def test_what_is_no_picture_is_named_and_nothing_is_predicted_unless_it_may_be_skipped(self):
        self.train_on_pictures()
        (self.folder / "notes.txt").write_text("no picture")
        words = ("--input", "data/test/red/0.png", "--input", "notes.txt", "--input", "data/test/blue/0.png")
        self.assertIn("notes.txt: is a text file, expected PNG", self.refuse(*words))
        running = self.ddprun("predict", "run", "dataset.skip_unreadable=true", *words, "--out", "p.csv")
        self.assertIn("1 file was left out:\n  notes.txt\n", running.err())
        self.assertEqual([(row["index"], row["guess"]) for row in self.rows("p.csv")], [("0", "red"), ("1", "blue")])
        self.assertIn("no image of --input can be read", self.refuse("dataset.skip_unreadable=true", "--input", "notes.txt"))
        self.assertIn("--input data/*.gif: matches no file", self.refuse("--input", "data/*.gif"))
        self.assertIn("data is a folder; name its files: --input 'data/*.jpg'", self.refuse("--input", "data"))
        self.assertIn("--split excludes --input", self.refuse("--split", "val", "--input", "data/test/red/0.png"))

    def test_arrays_are_predicted_row_by_row_and_a_data_set_that_takes_no_files_says_so(self):
        values = [row % 3 == feature for row in range(30) for feature in range(3)]
        def pack(rows):
            return npy("<f4", (len(rows) // 3, 3), struct.pack(f"<{len(rows)}f", *rows))
        (self.folder / "x.npy").write_bytes(pack(values))
        (self.folder / "y.npy").write_bytes(npy("<i8", (30,), struct.pack("<30q", *(row % 3 for row in range(30)))))
        (self.folder / "new.npy").write_bytes(pack([0, 0, 1, 1, 0, 0]))
        (self.folder / "wide.npy").write_bytes(npy("<f4", (2, 4), struct.pack("<8f", *range(8))))
        self.train("{plugin: tensors, train: [x.npy, y.npy]}", "trainer.max_epochs=20")
        self.ddprun("predict", "run", "--input", "new.npy", "--out", "p.csv")
        self.assertEqual([(row["index"], row["file"], row["guess"]) for row in self.rows("p.csv")],
                         [("0", "new.npy", "2"), ("1", "new.npy", "0")])
        self.assertRegex(self.refuse("--input", "wide.npy"), r"wide.npy: is \[2, 4\].*, but the run was trained on samples of \[3\]")
        self.assertIn("expected one file of inputs, found 2", self.refuse("--input", "new.npy", "--input", "x.npy"))
        self.ddprun(*SMALL, "model=mlp", "run.dir=digits", "trainer.max_epochs=1")
        self.assertIn("x.npy: ", self.assert_refused("predict", "digits", "--input", "x.npy", "--out", "no.csv"))
        (self.folder / "digit.png").write_bytes(png(40, (200, 200, 200)))
        self.ddprun("predict", "digits", "--input", "digit.png", "--out", "digit.csv", "--html", "digit.html")
        self.assertEqual([row["file"] for row in self.rows("digit.csv")], ["digit.png"])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""`ddprun data`: what an experiment's samples are like, in the terminal and as a page, before anybody trains on them."""

import base64
import re
import struct
import unittest
import zlib

from browser import CHROMIUM, PageTest, data_of
from init_test import png

SIDE = 12
SMALL = ("experiments/digits.yaml", "dataset.train_size=300", "dataset.val_size=40", "dataset.test_size=20")


def first_pixel(uri):
    """(red, green, blue) of a picture of the page."""
    content = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    packed = b"".join(content[match.start() + 4:match.start() + 4 + struct.unpack(">I", content[match.start() - 4:match.start()])[0]]
                      for match in re.finditer(b"IDAT", content))
    return tuple(zlib.decompress(packed)[1:4])  # the filter of a first row leaves its first pixel


class Data(PageTest):
    def table(self, text, head):
        """{first cell: the others} of the table that begins so."""
        lines = text[text.index(f"\n{head}") + 1:].split("\n\n")[0].splitlines()
        return {line.split()[0]: line.split()[1:] for line in lines}

    def samples(self, page):
        """The page's section of samples."""
        return data_of(self.folder / page)["sheet"]["sections"][0]

    def groups(self, page):
        """{class: samples}."""
        return {group["title"]: group["samples"] for group in self.samples(page)["groups"]}

    def show(self, *words):
        running = self.ddprun("data", *words)
        self.assertNotIn("warning", running.err())
        self.assertFalse((self.folder / "outputs").exists(), "nothing has run")
        for line in running.out().splitlines():
            self.assertLessEqual(len(line), 80, line)
        return running.out()

    def test_digits_are_reported_with_their_counts_and_values(self):
        text = self.show(*SMALL)
        self.assertIn("digits has the dataset digits: samples of 1 x 28 x 28 float32, 10 classes\n", text)
        self.assertEqual(self.table(text, "class"), {"class": ["train", "val", "test"]} | {str(digit): ["30", "4", "2"] for digit in range(10)})
        self.assertEqual(self.table(text, "split")["train"][0], "300")
        self.assertIn("digits_data.html", text.splitlines()[-1])
        groups = self.groups("digits_data.html")
        self.assertEqual(list(groups), [str(digit) for digit in range(10)])
        for digit, samples in groups.items():
            for sample in samples:
                self.assertEqual(sample["id"] % 10, int(digit), "digits come in turn")
                self.assertEqual(sample["views"], [], "nothing is changed in training")
        again = self.show(*SMALL, "seed=43")
        self.assertNotEqual(self.groups("digits_data.html"), groups, "those that another training comes to first")
        self.assertEqual(self.table(again, "split"), self.table(text, "split"))

    def test_pictures_in_the_wrong_folder_show_beside_its_name(self):
        colours = {"red": (250, 0, 0), "green": (0, 250, 0)}
        for name, colour in colours.items():
            folder = self.folder / "photos/train" / name
            folder.mkdir(parents=True)
            for i in range(5):
                (folder / f"{i}.png").write_bytes(png(SIDE, colour))
        (self.folder / "photos/train/red/0.png").rename(self.folder / "photos/train/green/swapped.png")
        text = self.show(*SMALL[:1], "dataset=image_folder", "dataset.root=photos", f"dataset.size={SIDE}", "dataset.flip=true",
                         "dataset.crop_padding=2", "name=photos", "--out", "look.html")
        self.assertEqual({name: row[0] for name, row in self.table(text, "class").items()} | {"class": "train"},
                         {"class": "train", "green": "6", "red": "4"})
        self.assertRegex(text, r"Augmentation: \d+ of 10 training samples are changed, differently in each epoch")
        groups = self.groups("look.html")
        shown = {name: {first_pixel(sample["stored"]) for sample in samples} for name, samples in groups.items()}
        self.assertEqual(shown, {"green": {(0, 250, 0), (250, 0, 0)}, "red": {(250, 0, 0)}})
        views = [sample["views"] for samples in groups.values() for sample in samples]
        self.assertTrue(all(len(set(pictures)) > 1 for pictures in views), "several views of each")

    def test_what_is_no_picture_is_reported_as_it_is(self):
        text = self.show("experiments/regression.yaml")
        self.assertIn("targets of one float32", " ".join(text.split()))
        self.assertIn("target", self.table(text, "split"))
        self.assertNotIn("\nclass", text)
        rows = self.samples("regression_data.html")["samples"]
        self.assertEqual(len(rows[0]["input"].split(", ")), 10)
        text = self.show("experiments/text.yaml")
        self.assertIn("all counts are on the page", " ".join(text.split()))
        for row in self.samples("text_data.html")["samples"]:
            self.assertTrue(row["target"].startswith(row["input"].removeprefix("[\\n]")[1:20].rsplit("[", 1)[0]), row)

    def test_nothing_else_is_overwritten(self):
        (self.folder / "notes.html").write_text("years of work")
        message = self.assert_refused("data", *SMALL, "--out", "notes.html")
        self.assertIn("notes.html exists and is not a page of data of ddprun", message)
        self.assertEqual((self.folder / "notes.html").read_text(), "years of work")
        self.assertIn("there is no folder", self.assert_refused("data", *SMALL, "--out", "nowhere/page.html"))

    def test_mistakes_are_reported_as_everywhere(self):
        self.assertIn("command line: dataset.trian_size=4: dataset.trian_size: unknown key; did you mean train_size?",
                      self.assert_refused("data", *SMALL, "dataset.trian_size=4"))
        message = self.assert_refused("data", *SMALL[:1], "dataset=image_folder", "dataset.root=nowhere")
        self.assertRegex(message, r"image_folder\.yaml:\d+:\d+: dataset: plugin image_folder: .*/nowhere: is not a folder")
        self.assertEqual(len(message.splitlines()), 1, message)

    @unittest.skipUnless(CHROMIUM, "there is no Chromium here: the page is not drawn")
    def test_a_browser_draws_the_page(self):
        self.show(*SMALL)
        document = self.document(self.folder / "digits_data.html")
        for section in ("samples", "counts", "values"):
            self.assertRegex(document, f'<section[^>]* id="{section}"')
        self.assertIn("dataset digits", document)


if __name__ == "__main__":
    unittest.main()

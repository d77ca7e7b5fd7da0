# SPDX-License-Identifier: MIT
"""`ddprun docs`: the pages that come with the program, by name and by what they say."""

import os
import pathlib
import unittest

from command import CommandTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = {page.stem: page for page in [*ROOT.glob("docs/*.md"), *ROOT.glob("runner/features/*/*.md")]} | {"readme": ROOT / "README.md"}


class Docs(CommandTest):
    def said(self, *words):
        return self.ddprun("docs", *words).out()

    def test_without_a_word_each_page_has_its_line(self):
        lines = dict(line.split(maxsplit=1) for line in self.said().split("\n\n")[0].splitlines() if not line.startswith(" "))
        self.assertEqual(lines.keys(), PAGES.keys())
        for name, page in PAGES.items():
            title = page.read_text().splitlines()[0].removeprefix("# ")
            self.assertTrue(title.startswith(lines[name][:40]), (name, lines[name]))

    def test_a_page_is_shown_by_its_name_and_by_its_path(self):
        for word, name in (("training", "training"), ("docs/training.md", "training"), ("freezing", "freezing"), ("README.md", "readme")):
            self.assertEqual(self.said(word), PAGES[name].read_text())

    def test_they_lie_as_in_the_clone_so_that_links_between_them_hold(self):
        folder = pathlib.Path(os.environ["DDPRUN"]).resolve().parents[1] / "share/doc/ddprun"
        for page in PAGES.values():
            self.assertEqual((folder / page.relative_to(ROOT)).read_text(), page.read_text())

    def test_words_find_the_sections_that_have_them(self):
        for words, section in ((["fine-tuning"], "[training: Fine-tuning]\n\n## Fine-tuning\n"), (["layer_decay:", "0.75"], "layer_decay: 0.75"),
                               # A comment in a block of code is no heading.
                               (["# torchrun --nproc-per-node=4 script.py"], "[python: Ranks and nodes]\n\n## Ranks and nodes\n")):
            self.assertIn(section, self.said(*words))

    def test_what_is_nowhere_is_refused(self):
        self.assertIn('no page is called "experimentss", and none has these words', self.assert_refused("docs", "experimentss"))

    def test_help_and_errors_lead_there(self):
        for words in (["--help"], ["run", "--help"]):
            reported = self.ddprun(*words).out()
            self.assertIn("ddprun docs ", reported)
            self.assertNotIn("docs/", reported)


if __name__ == "__main__":
    unittest.main()

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
        for name, words in {"training": ("docs/training.md", "Training.md", "../../../docs/training.md"), "readme": ("README.md",),
                            "record": ("runner/features/record/record.md", "../record/record.md", "../runner/features/record/record.md")}.items():
            for word in (name, *words):
                self.assertEqual(self.said(word), PAGES[name].read_text())

    def test_they_lie_as_in_the_clone_so_that_links_between_them_hold(self):
        folder = pathlib.Path(os.environ["DDPRUN"]).resolve().parents[1] / "share/doc/ddprun"
        for page in PAGES.values():
            self.assertEqual((folder / page.relative_to(ROOT)).read_text(), page.read_text())

    def test_words_find_the_sections_that_have_them_those_with_the_heading_first(self):
        found = self.said("fine-tuning")
        self.assertTrue(found.startswith("[training: Fine-tuning]\n\n## Fine-tuning\n"), found[:200])
        self.assertIn("layer_decay", found)
        linked = self.said("docs/experiments.md#exit-codes")
        self.assertTrue(linked.startswith("[experiments: Exit codes]\n\n"), linked[:100])
        self.assertEqual(linked.count("\n## ") + linked.count("\n### "), 1)
        self.assertIn("layer_decay: 0.75", self.said("layer_decay:", "0.75"))

    def test_a_comment_in_a_block_of_code_is_no_heading(self):
        found = self.said("# torchrun --nproc-per-node=4 script.py")
        self.assertTrue(found.startswith("[python: Ranks and nodes]\n\n## Ranks and nodes\n"), found)

    def test_of_many_sections_it_says_where_they_are(self):
        found = self.said("the")
        self.assertRegex(found, r'^\d+ sections have "the":\n\n  \w+: ')
        self.assertIn("  training: Fine-tuning\n", found)

    def test_what_is_nowhere_is_told_with_the_pages(self):
        told = self.assert_refused("docs", "experimentss")
        self.assertIn('no page is called "experimentss", and none has these words; did you mean experiments?; pages: readme, ', told)

    def test_a_terminal_gets_its_pager(self):
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        running = self.start("docs", "python", stdout=slave, env={"PAGER": "sed -n '1s/^/PAGED: /p'", "TERM": "xterm"})
        os.close(slave)
        shown = os.read(master, 1000).decode()
        self.assertEqual(running.wait(), 0, running.text())
        self.assertEqual(shown.strip(), "PAGED: # Runs in Python")

    def test_help_and_errors_lead_there(self):
        for words in (["--help"], ["run", "--help"]):
            told = self.ddprun(*words).out()
            self.assertIn("ddprun docs ", told)
            self.assertNotIn("docs/", told)


if __name__ == "__main__":
    unittest.main()

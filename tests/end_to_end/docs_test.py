# SPDX-License-Identifier: MIT
"""What README.md, docs/, the pages of features and --help name exists: files, anchors, keys, commands, flags, exit codes, words for how a run ended."""

import json
import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DDPRUN = os.environ["DDPRUN"]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("runner/features/*/*.md"))]
FOLDERS = "cmake configs docs plugins runner sdk tests tools".split()
# Of other programs, where a page shows how to call them.
FOREIGN = {"--backend-store-uri", "--contain", "--from-literal", "--hp", "--layer-decay", "--logdir", "--no-python",
           "--no-serve-artifacts", "--workflow"}  # fmt: skip


def said(*words):
    return subprocess.run([DDPRUN, *words], capture_output=True, text=True, check=True).stdout


def own_text():
    """Of the programs: the flags that they parse and print."""
    sources = [*ROOT.glob("runner/c*/*.cpp"), *ROOT.glob("sdk/python/**/*.py"), *ROOT.glob("tools/**/*")]
    return "\n".join(file.read_text(errors="replace") for file in sources if file.is_file() and file.stat().st_size < 1 << 20)


def names_in(schema):
    """All keys in a part of the schema, at any depth."""
    if isinstance(schema, list):
        return set().union(*map(names_in, schema))
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", {})).union(*map(names_in, schema.values()))


def anchors(page):
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def quoted(text):
    """Words in backquotes and in indented or fenced examples."""
    return re.findall(r"`([^`\n]+)`", text) + re.findall(r"^    (.*)$", text, re.M) + re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        help_text = said("--help")
        commands = re.findall(r"^  ([a-z-]+)  ", help_text.partition("Commands:")[2], re.M)
        cls.helps = {"": help_text} | {command: said(command, "--help") for command in commands}

    def assert_none(self, mistakes):
        self.assertEqual(sorted(set(mistakes)), [])

    def test_files_are_where_they_are_named(self):
        named = re.compile(rf"(?<![\w/.<-])((?:{'|'.join(FOLDERS)})/[\w./+-]*\w)(?![\w*<{{/-])")
        self.assert_none(f"{page.name}: {path}" for page in PAGES for text in quoted(page.read_text()) for path in named.findall(text)
                         if not path.endswith("NAME") and not list(ROOT.glob(path + "*")))

    def test_links_lead_to_pages_and_their_parts(self):
        mistakes = []
        for page in PAGES:
            for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
                name, _, part = target.partition("#")
                file = page.parent / name if name else page
                if not file.exists() or (part and part not in anchors(file)):
                    mistakes.append(f"{page.name}: {target}")
        self.assert_none(mistakes)

    def test_keys_are_known(self):
        sections = json.loads(said("schema"))["properties"]
        known = {section: names_in(part) for section, part in sections.items()}
        key = re.compile(rf"(?<![\w./+-])({'|'.join(sections)})\.([a-z_]\w+)(?![\w/(])")
        no_keys = {"cpp", "json", "pt", "safetensors", "ts", "hiden", "lrr"}  # files, and what a message is shown for
        self.assert_none(f"{page.name}: {section}.{name}" for page in PAGES for text in quoted(page.read_text())
                         for section, name in key.findall(text) if name not in known[section] | no_keys
                         and not (section == "run" and page.name in ("python.md", "flyte.md", "from_pytorch.md")))  # attributes of a Run

    def test_commands_and_flags_are_known(self):
        known, mistakes = "".join(self.helps.values()) + own_text(), []
        for page in PAGES:
            texts = quoted(page.read_text())
            used = re.findall(r"^\s*(?:tools/)?ddprun ([a-z][a-z-]+)(?= |$)", "\n".join(texts), re.M)
            mistakes += [f"{page.name}: ddprun {command}" for command in used if command not in self.helps]
            for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+\b", "\n".join(texts)):
                if flag not in FOREIGN and not re.search(re.escape(flag[2:]) + r"(?![\w-])", known):
                    mistakes.append(f"{page.name}: {flag}")
        self.assert_none(mistakes)

    def test_every_command_has_an_example(self):
        self.assert_none(command for command, text in self.helps.items() if f"ddprun {command}" not in text.partition("Example")[2])

    def test_exit_codes_are_reported_alike(self):
        reported = re.search(r"Exit codes: (.*?)\.$", self.helps[""], re.M | re.S)[1]
        page = re.search(r"^Exit codes: (.*?)\.$", (ROOT / "docs/experiments.md").read_text(), re.M | re.S)[1]
        self.assertEqual(page.replace(" (early stop too)", "").split(), reported.split())

    def test_words_for_how_a_run_ended_are_those_of_the_program(self):
        words = re.search(r"WordsOf<RunStatus> \{.*?\(\s*\{(.*?)\}\)", (ROOT / "runner/base/words.h").read_text(), re.S)[1]
        page = (ROOT / "docs/report.md").read_text().partition("## The list")[2]
        self.assert_none(word for word in re.findall(r'"(\w+)"', words) if f"`{word}`" not in page)


if __name__ == "__main__":
    unittest.main()

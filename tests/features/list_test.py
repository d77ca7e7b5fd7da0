# SPDX-License-Identifier: MIT
"""A feature is its folder and its line in the list: the list compiles without any of them, nobody else names one, those that can be asked
for have a page that README lists, and docs/setup.md has the events of each. `list_test.py --accept` writes that table anew."""

import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FEATURES = ROOT / "runner/features"
DOCS = ROOT / "docs/setup.md"
NIGHTLY = os.environ.get("DDPRUN_NIGHTLY") == "1"
BEGIN, END = "<!-- events: tests/features/list_test.py --accept -->\n", "<!-- end of events -->\n"


def listed():
    """The features in their order."""
    block = re.search(r"^set\(features\n(.*?)^\)", (FEATURES / "list.cmake").read_text(), re.MULTILINE | re.DOTALL)[1]
    return re.findall(r"^  (\w+)", block, re.MULTILINE)


def declared(feature):
    """{word: what follows it} in the call of ddprun_feature()."""
    found, last = {}, None
    for word in (FEATURES / feature / "feature.cmake").read_text().partition("(")[2].rstrip(")\n").split():
        if word.isupper():
            last = found[word] = []
        else:
            last.append(word)
    return found


def events():
    """Those of Feature, in the order of a run."""
    text = (ROOT / "runner/train/feature.h").read_text()
    body = text[text.index("class Feature {"):text.index("// The features of one training")]
    return [name for name in re.findall(r"virtual [\w:<>&* ]+?[ *](\w+)\(", body) if name != "Feature"]


def overridden(feature):
    text = "".join(path.read_text() for path in sorted((FEATURES / feature).glob("*.[ch]*")))
    return set(re.findall(r"(\w+)\([^()]*\)(?: const)? override", text))


def table():
    lines = ["| event | features |", "|---|---|"]
    lines += [f"| `{event}` | {', '.join(name for name in listed() if event in overridden(name))} |" for event in events()]
    return "\n".join(lines) + "\n"


class List(unittest.TestCase):
    def test_each_folder_is_listed_and_has_what_the_list_asks_for(self):
        folders = sorted(path.name for path in FEATURES.iterdir() if path.is_dir())
        self.assertEqual(sorted(listed()), folders)
        for feature in folders:
            text = "".join(path.read_text() for path in (FEATURES / feature).glob("*.cpp"))
            self.assertEqual(re.findall(r"std::unique_ptr<Feature> make_(\w+)\(", text), [feature])
            said = declared(feature)
            files = {*said["SOURCES"], *said.get("COMMAND_SOURCES", [])}
            files |= {f"{feature}_section.cpp"} if "SECTION" in said else set()
            files |= {f"{command.replace('-', '_')}_command.cpp" for command in said.get("COMMANDS", [])}
            self.assertEqual({path.name for path in (FEATURES / feature).glob("*.cpp")}, files)

    def test_each_that_can_be_asked_for_has_its_page(self):
        pages = {path.relative_to(ROOT).as_posix() for path in FEATURES.rglob("*.md")}
        asked = {feature for feature in listed() if declared(feature).keys() & {"KEYS", "COMMANDS"}}
        self.assertLessEqual({f"runner/features/{feature}/{feature}.md" for feature in asked}, pages)
        self.assertLessEqual(pages, {f"runner/features/{feature}/{feature}.md" for feature in listed()})
        self.assertEqual(set(re.findall(r"\]\((runner/features/[^)]*)\)", (ROOT / "README.md").read_text())), pages)

    def test_nobody_but_the_list_and_tests_names_a_feature(self):
        """The worker has the list; a feature does not know another."""
        found = []
        for path in sorted([*(ROOT / "runner").rglob("*.h"), *(ROOT / "runner").rglob("*.cpp")]):
            for folder in re.findall(r'#include "features/(\w+)/', path.read_text()):
                if path.parent != FEATURES / folder:
                    found.append(f"{path.relative_to(ROOT)} includes features/{folder}")
            if '#include "features/features.h"' in path.read_text() and path.relative_to(ROOT).as_posix() != "runner/worker/train_task.cpp":
                found.append(f"{path.relative_to(ROOT)} includes the list")
        self.assertEqual(found, [])

    def test_the_list_compiles_without_each_of_them(self):
        """One at random; nightly each."""
        compiler = self.compiler()
        for feature in listed() if NIGHTLY else random.sample(listed(), 1):
            with self.subTest(feature=feature), tempfile.TemporaryDirectory() as folder:
                kept = ";".join(name for name in listed() if name != feature)
                subprocess.run([os.environ["DDPRUN_CMAKE"], "-D", f"kept={kept}", "-D", f"folder={folder}", "-P",
                                ROOT / "tests/features/generate.cmake"], check=True)
                text = pathlib.Path(folder, "features.cpp").read_text()
                self.assertEqual(text.count("features.add("), len(listed()) - 1)
                self.assertNotIn(f"make_{feature}(", text)
                text = pathlib.Path(folder, "commands.cpp").read_text()
                absent = re.findall(rf'{{"([a-z-]+)", nullptr, "{feature}"}}', text)
                self.assertEqual(absent, declared(feature).get("COMMANDS", []))
                self.assertEqual(text.count("nullptr"), len(absent))
                for file in ("features.cpp", "sections.cpp", "commands.cpp"):
                    subprocess.run([*compiler, pathlib.Path(folder, file)], check=True, cwd=os.environ["DDPRUN_BUILD"])

    def compiler(self):
        """What compiles the list of the core alone, but for the source and what it writes."""
        target = "runner/features/CMakeFiles/ddprun_no_features.dir/none/features.cpp.o"
        made = subprocess.run([os.environ["DDPRUN_NINJA"], "-C", os.environ["DDPRUN_BUILD"], "-t", "commands", "-s", target],
                              check=True, capture_output=True, text=True)
        words = shlex.split(made.stdout.splitlines()[-1])
        words = words[next(i for i, word in enumerate(words) if word.endswith(("c++", "g++", "clang++"))):]
        return [*words[:words.index("-MD")], "-fsyntax-only"]

    def test_the_docs_have_the_events_of_each(self):
        text = DOCS.read_text()
        written = text[text.index(BEGIN) + len(BEGIN):text.index(END)].strip() + "\n"
        self.assertEqual(written, table(), "run tests/features/list_test.py --accept")

    def test_each_event_has_a_feature_that_is_about_it(self):
        self.assertEqual([event for event in events() if not any(event in overridden(name) for name in listed())], [])

    def test_there_are_at_most_thirty_events(self):
        """More would make the loop a switchboard."""
        self.assertLessEqual(len(events()), 30, events())


def accept():
    text = DOCS.read_text()
    DOCS.write_text(text[:text.index(BEGIN) + len(BEGIN)] + "\n" + table() + "\n" + text[text.index(END):])


if __name__ == "__main__":
    if sys.argv[1:] == ["--accept"]:
        accept()
    else:
        unittest.main()

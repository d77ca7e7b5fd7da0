# SPDX-License-Identifier: MIT
"""Comments, docs and texts are spelled as codespell has it, and the C++ lies as clang-format puts it. style_words.txt has what is
meant to be written so: mistakes that tests make on purpose, and pieces of names."""

import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from source_tree import ROOT, planted, tracked

HERE = pathlib.Path(__file__).resolve().parent
REQUIREMENTS = HERE / "style_requirements.txt"
VENV = ROOT / "build/style"
WORDS = HERE / "style_words.txt"

CXX = {".h", ".cpp", ".cu"}
# Written by others, or data: not ours to mend.
# Foreign JSON in a message: writing it recurses once for each level, and it may be of any size. describe() is for messages.
DUMPED = re.compile(r"\+ (?!(?:nlohmann::)?json\()[^;+]*\bdump\(\)")
# Words that say too little, or that no reader knows, in prose and in names; methods of other libraries have some of them.
UNWANTED = re.compile(r"(?<![A-Za-z])[Tt](?:ells?|old|elling)(?![a-z])|(?<=[a-z])T(?:ells?|old)(?![a-z])|[Ww]ho(?:ever)|[Gg]oes[ _]?[Oo]n\b|"
                      r"[Ww]ayward|is[ ]borne")
THEIRS = re.compile(r"[.]t[e]ll\(|ft[e]ll|t[e]llg")
FOREIGN = re.compile(r"tests/fuzz/corpus/|.*\.(png|jpe?g|gz|npy|safetensors|pt|bin|idx\w*|ipynb|svg)$")


def pinned():
    return dict(re.findall(r"^([\w-]+)==(\S+)$", REQUIREMENTS.read_text(), re.MULTILINE))


def install():
    """Makes build/style, or leaves it as it is where it has these versions."""
    VENV.parent.mkdir(exist_ok=True)
    with open(VENV.parent / ".style_lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = VENV / ".complete"
        if made.is_file() and made.read_text() == REQUIREMENTS.read_text():
            return
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([VENV / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-input",
                        "--requirement", REQUIREMENTS], check=True)
        made.write_text(REQUIREMENTS.read_text())


def tool(name):
    """The program in its pinned version. Skips the test where it is not installed."""
    found = shutil.which(name, path=f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout if found else ""
    if pinned()[name] not in version:
        raise unittest.SkipTest(f"there is no {name} {pinned()[name]}; DDPRUN_STYLE=1 installs it into build/style")
    return found


def ours(*folders):
    """What git has or would take, but for what is foreign; of these folders, C++."""
    files = [file for file in tracked("-co", "--exclude-standard") if not FOREIGN.match(file.relative_to(ROOT).as_posix())]
    return [file for file in files if file.suffix in CXX and file.relative_to(ROOT).parts[0] in folders] if folders else files


def misspelled(files):
    return subprocess.run([tool("codespell"), "--ignore-words", WORDS, *files], capture_output=True, text=True, check=False).stdout


def out_of_order(files):
    command = [tool("clang-format"), "--dry-run", "-Werror", "--style=file", "--fallback-style=Google", *files]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def dumped(files):
    return [f"{file}:{number}" for file in files for number, line in enumerate(file.read_text().splitlines(), 1) if DUMPED.search(line)]


def unwanted(files):
    lines = ((file, number, line) for file in files for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1))
    return [f"{file}:{number}: {line.strip()}" for file, number, line in lines if UNWANTED.search(THEIRS.sub("", line))]


class Style(unittest.TestCase):
    def planted(self, name, text):
        return [planted(self, {name: text}) / name]

    def test_words_are_spelled_right(self):
        self.assertEqual(misspelled(ours()), "")
        self.assertIn("==> receive", misspelled(self.planted("a.h", "// What the ranks rec" + "ieve.\n")))

    def test_the_cxx_is_formatted(self):
        self.assertEqual(out_of_order([file for file in ours() if file.suffix in CXX]), "")
        self.assertIn("a.h:1", out_of_order(self.planted("a.h", "int  a ;\n")))

    def test_no_foreign_json_stands_in_a_message(self):
        self.assertEqual(dumped(ours("plugins", "runner", "sdk")), [])
        self.assertEqual(len(dumped(self.planted("a.cpp", 'refuse("the place is " + place.dump() + ", expected a name");\n'))), 1)

    def test_no_unwanted_word_is_said(self):
        self.assertEqual(unwanted(tracked()), [])
        for text in ("It t" + "ells how.", "t" + "ell_end()", "IsTo" + "ld", "who" + "ever comes", "it go" + "es on", "go" + "es_on"):
            self.assertEqual(len(unwanted(self.planted("a.md", text))), 1, text)
        self.assertEqual(unwanted(self.planted("a.py", "study.t" + "ell(trial); position = file.t" + "ell()  # a total, a bold one")), [])

    def test_the_versions_are_those_of_the_commits_hooks(self):
        hooks = (ROOT / ".pre-commit-config.yaml").read_text()
        for name, version in pinned().items():
            self.assertIn(f"{name}=={version}", hooks)


if __name__ == "__main__":
    if os.environ.get("DDPRUN_STYLE") == "1":
        install()
    unittest.main()

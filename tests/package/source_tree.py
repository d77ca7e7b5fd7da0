# SPDX-License-Identifier: MIT
"""What the tests of the tree share: its files, what CMake is asked for, what a file includes, and small trees with planted mistakes."""

import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]', re.MULTILINE)


def tracked(*options):
    """The files that git has, links left out."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", *options], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        raise unittest.SkipTest("this is no clone: git cannot list its files")
    files = [ROOT / name for name in filter(None, listed.stdout.split("\0"))]
    return [file for file in files if file.is_file() and not file.is_symlink()]


def calls(file):
    """[(command, its arguments)] of a CMakeLists.txt."""
    return re.findall(r"^\s*(\w+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)", re.sub(r"#.*", "", file.read_text()), re.MULTILINE)


def includes(file):
    """[(what is included, the line)]"""
    text = file.read_text()
    return [(match[1], text.count("\n", 0, match.start()) + 1) for match in INCLUDE.finditer(text)]


def planted(test, files):
    """A folder with these files, until the test ends."""
    folder = pathlib.Path(test.enterContext(tempfile.TemporaryDirectory()))
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder

# SPDX-License-Identifier: MIT
"""Every source file compiles by itself, as the preset dev compiles it: release joins files, so that one may lean on what another
includes, and nobody sees it."""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
INCLUDED = re.compile(r'^#include "(.+)"$', re.MULTILINE)
WITH_VALUE = ("-o", "-c", "-MF", "-MT")


def sources(file):
    """The files that a joined one holds; itself, if it is none."""
    if "/Unity/unity_" not in file:
        return [file]
    return INCLUDED.findall(pathlib.Path(file).read_text())


def flags(command):
    """The words of a compiler's command without what names files."""
    words = iter(shlex.split(command))
    kept = []
    for word in words:
        if word in WITH_VALUE:
            next(words)
        elif word != "-MD":
            kept.append(word)
    return kept


def jobs():
    """(file, its compiler's command, where it runs); each file once."""
    found = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        command = flags(entry["command"])
        if command[0].endswith("nvcc") or "c++-header" in command:
            continue
        for file in sources(entry["file"]):
            found.setdefault(file, ([*command, "-fsyntax-only", file], entry["directory"]))
    chosen = sys.argv[1:]  # parts of paths, to look at some alone
    return {file: job for file, job in found.items() if not chosen or any(part in file for part in chosen)}


def compiled(job):
    command, folder = job
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


class EachFile(unittest.TestCase):
    def test_compiles_by_itself(self):
        work = jobs()
        self.assertTrue(work)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for file, done in zip(work, pool.map(compiled, work.values())):
                with self.subTest(file=file):
                    self.assertEqual(done.returncode, 0, "\n".join(done.stderr.splitlines()[:20]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

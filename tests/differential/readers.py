# SPDX-License-Identifier: MIT
"""What the tests of this folder share: asking our readers, by the program that $DDPRUN_DUMP_FILES names, what a file holds."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

NIGHTLY = os.environ.get("DDPRUN_NIGHTLY") == "1"


def use_peers():
    """Packages of build/peers can be imported, too, where the environment asks for them: torchvision lies there, and torch here."""
    if os.environ.get("DDPRUN_PEERS") != "1":
        return
    peers = pathlib.Path(__file__).resolve().parents[1] / "tools/peers"
    python = subprocess.run([peers], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    sys.path.append(subprocess.run([python, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


class Refused(Exception):
    """Our reader's own text of what is wrong with a file."""


class ReaderTest(unittest.TestCase):
    """One program reads the files of all tests of a class: to start it takes longer than to read them."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-differential-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.start()
        cls.addClassCleanup(lambda: cls.program.communicate())

    @classmethod
    def start(cls):
        cls.program = subprocess.Popen([os.environ["DDPRUN_DUMP_FILES"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self, reader, content, *names):
        """What the reader makes of a file with this content; Refused where it is told to the user that it cannot be read."""
        file = self.folder / "file"
        file.write_bytes(content)
        self.program.stdin.write("\t".join([reader, str(file), *names]) + "\n")
        self.program.stdin.flush()
        line = self.program.stdout.readline()
        if not line:
            code = self.program.wait()
            self.program.communicate()
            type(self).start()  # for the tests that follow
            self.fail(f"the reader {reader} ended the program with {code}")
        answer = json.loads(line)
        if "error" in answer:
            self.assertTrue(answer["error"].startswith(str(file)), f"the text names no file: {answer['error']}")
            raise Refused(answer["error"])
        return answer["value"]

    def refusal(self, reader, content, *names):
        """The text with which the reader refuses; None where it takes the file."""
        try:
            self.read(reader, content, *names)
        except Refused as refused:
            return str(refused)
        return None


def main(missing=None):
    """Runs a file's tests; they are skipped where the package is missing that they compare with."""
    if missing:
        print(f"skipped: there is no Python package {missing} to compare with")
        sys.exit(77)
    unittest.main()

# SPDX-License-Identifier: MIT
"""What the tests of this folder share: asking our readers, by the program that $DDPRUN_DUMP_FILES names, what a file holds, and comparing
that with what another library makes of it."""

import importlib
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


def require(*packages):
    """Skips the file's tests where a package is missing that they compare with."""
    for name in packages:
        try:
            importlib.import_module(name)
        except (ImportError, RuntimeError) as error:  # the second: made for another torch
            print(f"skipped: there is no Python package {getattr(error, 'name', name)} to compare with")
            sys.exit(77)


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
        """What the reader makes of a file with this content; Refused where it is asked to the user that it cannot be read."""
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

    def assert_same_verdict(self, reader, content, theirs, *names):
        """Both take the content or both refuse it, theirs with any exception; says which."""
        ours, error = self.refusal(reader, content, *names), None
        try:
            theirs(content)
        except Exception as refused:  # each library has its own
            error = refused
        self.assertEqual(ours is None, error is None, f"ours: {ours}, the other's: {error}")
        return ours is None

    def assert_only_theirs(self, reader, content, theirs, reason):
        """We refuse what they take, for this reason."""
        theirs(content)
        self.assertIn(reason, self.refusal(reader, content) or "it was taken")

    def pixels(self, reader, content, *words):
        """An array of the picture's shape."""
        import numpy

        answer = self.read(reader, content, *map(str, words))
        return numpy.frombuffer(bytes.fromhex(answer["data"]), numpy.uint8).reshape(answer["shape"]).astype(int)

    def assert_near(self, found, expected, most=0):
        import numpy

        expected = numpy.asarray(expected).astype(int)
        self.assertEqual(found.shape, expected.shape)
        self.assertLessEqual(numpy.abs(found - expected).max(), most)

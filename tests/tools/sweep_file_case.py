# SPDX-License-Identifier: MIT
"""What the tests of sweep files share: reading one, in a folder of its own."""

import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/lib"), str(ROOT / "sdk/python")]

from sweep.sweep_file import read_sweep  # noqa: E402


class SweepFileTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-sweep-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)

    def read(self, text):
        file = self.folder / "s.yaml"
        file.write_text(text)
        return read_sweep(file)

# SPDX-License-Identifier: MIT
"""Packages that are missing, or made for another torch: each tool says what to install, in the versions that fit."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/lib"))

from tooling.place import fitting_torch  # noqa: E402


OLD = {"torchvision/__init__.py": "raise RuntimeError('operator torchvision::nms does not exist')\n", "timm/__init__.py": "import torchvision\n"}
FITS = r"To install what fits torch 2\.\d+\.\d+\S*: \S+ -m pip install torch==2\.\d+\.\d+ "
NMS = r"operator torchvision::nms does not exist\. "
# (files that lie there, what is exported, what is said)
EXPORTS = [
    (OLD, "timm:vit", f"timm cannot be imported: {NMS}{FITS}timm torchvision\n"),
    (OLD, "torchvision:resnet18", f"torchvision cannot be imported: {NMS}{FITS}torchvision\n"),
    (OLD | {"first.py": "import timm\n\ndef net(): pass\n"}, "first.py:net", rf"first\.py:1: RuntimeError: {NMS}{FITS}torchvision\n"),
    (OLD | {"later.py": "def net():\n    import timm\n    return timm.create_model('vit')\n"}, "later.py:net",
     rf"later\.py:net\(\): RuntimeError: {NMS}{FITS}torchvision\n"),
    ({"torchvision/__init__.py": "", "odd.py": "import torchvision\nimport my_own_helpers\n"}, "odd.py:net",
     r"odd\.py:2: ModuleNotFoundError: No module named 'my_own_helpers'\n$"),
    ({"torchvision/__init__.py": "", "net.py": "import torchvision\n\ndef net():\n    raise RuntimeError('odd')\n"}, "net.py:net",
     r"net\(\): RuntimeError: odd; --set NAME=VALUE gives an argument\n$"),
    ({"mine.py": "import timm\n"}, "mine.py:net", rf"mine\.py:1: .*No module named 'timm'\. {FITS}timm"),
    ({"timm/__init__.py": "import safe_tensors_of_nobody\n"}, "timm:vit", rf"No module named 'safe_tensors_of_nobody'\. {FITS}timm"),
]  # fmt: skip


class Packages(unittest.TestCase):
    def said(self, files, tool, *words):
        """The one line, where these files lie."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        done = subprocess.run([sys.executable, "-B", ROOT / "tools" / tool, *words], cwd=folder, capture_output=True, text=True,
                              env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"})  # fmt: skip
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_what_is_missing_or_made_for_another_torch_is_named_with_the_line_that_mends_all(self):
        for files, source, text in EXPORTS:
            with self.subTest(source):
                self.assertRegex(self.said(files, "export_model", source, "--input", "3x8x8", "--out", "net.pt2"), text)

    def test_where_torch_is_missing_each_tool_asks_for_the_one_that_fits(self):
        none = {"torch/__init__.py": "raise ImportError('there is no torch')\n"}
        asked = self.said(none, "export_model", "net.py:net", "--input", "3x8x8", "--out", "net.pt2")
        self.assertIn(f"-m pip install '{fitting_torch()}'\n", asked)
        asked = self.said(none, "convert_weights", "net.pt", "net.safetensors")
        self.assertIn(f"-m pip install '{fitting_torch()}' safetensors numpy\n", asked)


class Torch(unittest.TestCase):
    def test_is_the_one_that_this_ddprun_is_made_for(self):
        stated = re.search(r"^torch==(\d+\.\d+)", (ROOT / "tools/requirements.txt").read_text(), re.MULTILINE)[1]
        self.assertRegex(fitting_torch(), rf"^torch==({re.escape(stated)}|2\.\d+)\.\*$")


if __name__ == "__main__":
    unittest.main()

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


class Packages(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def write(self, name, text):
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def reported(self, source):
        return self.reported_by("export_model", source, "--input", "3x8x8", "--out", "net.pt2")

    def reported_by(self, tool, *words):
        done = subprocess.run(
            [sys.executable, "-B", ROOT / "tools" / tool, *words],
            cwd=self.folder, env={"PYTHONPATH": str(self.folder), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)  # fmt: skip
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_a_package_for_another_torch_is_named_with_the_line_that_mends_all(self):
        self.write("torchvision/__init__.py", "raise RuntimeError('operator torchvision::nms does not exist')\n")
        self.write("timm/__init__.py", "import torchvision\n")
        fits = r"To install what fits torch 2\.\d+\.\d+\S*: \S+ -m pip install torch==2\.\d+\.\d+ "
        reported = "cannot be imported: operator torchvision::nms does not exist\\. "
        self.assertRegex(self.reported("timm:vit"), f"timm {reported}{fits}timm torchvision\n")
        self.assertRegex(self.reported("torchvision:resnet18"), f"torchvision {reported}{fits}torchvision\n")

    def test_so_is_one_that_ones_own_file_imports(self):
        self.write("torchvision/__init__.py", "raise RuntimeError('operator torchvision::nms does not exist')\n")
        self.write("timm/__init__.py", "import torchvision\n")
        self.write("first.py", "import timm\n\ndef net(): pass\n")
        self.write("later.py", "def net():\n    import timm\n    return timm.create_model('vit')\n")
        reported = r"RuntimeError: operator torchvision::nms does not exist\. To install what fits .* -m pip install torch==\S+ torchvision\n"
        self.assertRegex(self.reported("first.py:net"), rf"first\.py:1: {reported}")
        self.assertRegex(self.reported("later.py:net"), rf"later\.py:net\(\): {reported}")

    def test_ones_own_mistake_is_no_matter_of_packages(self):
        self.write("torchvision/__init__.py", "")
        self.write("odd.py", "import torchvision\nimport my_own_helpers\n")
        self.write("net.py", "import torchvision\n\ndef net():\n    raise RuntimeError('odd')\n")
        self.assertTrue(self.reported("odd.py:net").endswith("odd.py:2: ModuleNotFoundError: No module named 'my_own_helpers'\n"))
        self.assertTrue(self.reported("net.py:net").endswith("net(): RuntimeError: odd; --set NAME=VALUE gives an argument\n"))

    def test_one_that_is_missing_is_too(self):
        self.write("mine.py", "import timm\n")
        self.assertRegex(self.reported("mine.py:net"), r"mine\.py:1: .*No module named 'timm'\. To install what fits torch .* -m pip install torch==\S+ timm")
        self.write("timm/__init__.py", "import safe_tensors_of_nobody\n")
        self.assertRegex(self.reported("timm:vit"), r"No module named 'safe_tensors_of_nobody'\. To install what fits torch .* timm")


    def test_where_torch_is_missing_each_tool_asks_for_the_one_that_fits(self):
        self.write("torch/__init__.py", "raise ImportError('there is no torch')\n")
        self.assertIn(f"-m pip install '{fitting_torch()}'\n", self.reported("net.py:net"))
        self.assertIn(f"-m pip install '{fitting_torch()}' safetensors numpy\n", self.reported_by("convert_weights", "net.pt", "net.safetensors"))


class Torch(unittest.TestCase):
    def test_is_the_one_that_this_ddprun_is_made_for(self):
        stated = re.search(r"^torch==(\d+\.\d+)", (ROOT / "tools/requirements.txt").read_text(), re.MULTILINE)[1]
        self.assertRegex(fitting_torch(), rf"^torch==({re.escape(stated)}|2\.\d+)\.\*$")


if __name__ == "__main__":
    unittest.main()

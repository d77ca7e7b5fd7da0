# SPDX-License-Identifier: MIT
"""tools/convert_weights reads what trainers save beside the weights without running code of the file, and says which weights it took."""

import argparse
import collections
import contextlib
import enum
import functools
import io
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy
import torch
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/lib"))

import tooling.place  # noqa: E402, F401; makes ddprun known
from convert_weights import main  # noqa: E402
from tooling.start import run_tool  # noqa: E402

WEIGHTS = {"a": torch.ones(2), "b": torch.arange(3)}


class AttributeDict(dict):
    """As Lightning keeps hyperparameters."""


class Mode(enum.Enum):
    FIRST = 1


class Slots:
    __slots__ = ("value",)

    def __init__(self):
        self.value = 1


class Code:
    """Runs a function where it is unpickled."""

    def __init__(self, function, *words):
        self.function, self.words = function, words

    def __reduce__(self):
        return self.function, self.words


BESIDE = {
    "argparse": argparse.Namespace(out=pathlib.Path("/x"), device=torch.device("cpu"), make=functools.partial(int, base=2)),
    "states of generators": (numpy.random.get_state(), random.getstate(), torch.get_rng_state()),
    "numbers of numpy": {"best": numpy.float64(1.5), "list": numpy.array([1, 2]), "type": numpy.dtype("float32")},
    "dictionaries of other classes": {"of_a_trainer": AttributeDict(a=AttributeDict(b=1)), "default": collections.defaultdict(list, {1: [2]})},
    "other objects": (Mode.FIRST, Slots(), torch.optim.lr_scheduler.LambdaLR, len),
}  # fmt: skip


class ConvertWeights(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def convert(self, content, *words, code=0, **saving):
        """Returns what is said of a file with this content."""
        source, said = self.folder / "w.pth", io.StringIO()
        torch.save(content, source, **saving)
        command = ["convert_weights", str(source), str(self.folder / "w.st"), *words]
        with unittest.mock.patch("sys.argv", command), contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            with self.assertRaises(SystemExit) as ended:
                run_tool(main, "convert_weights")
        self.assertEqual(ended.exception.code, code, said.getvalue())
        self.assertEqual(len(said.getvalue().splitlines()), 1, said.getvalue())
        self.assertNotIn("\x1b", said.getvalue())
        return said.getvalue()

    def assert_weights(self, expected):
        found = load_file(self.folder / "w.st")
        self.assertEqual(found.keys(), expected.keys())
        self.assertTrue(all(torch.equal(found[name], value) for name, value in expected.items()))

    def test_what_trainers_save_beside_weights_is_passed_over(self):
        for what, beside in BESIDE.items():
            for zipped in (True, False):
                with self.subTest(what, zipped=zipped):
                    said = self.convert({"beside": beside, "model": WEIGHTS}, _use_new_zipfile_serialization=zipped)
                    self.assertIn("2 tensors, 5 numbers\n", said)
                    self.assert_weights(WEIGHTS)

    def test_code_in_a_file_does_not_run(self):
        mark = self.folder / "mark"
        for zipped in (True, False):
            self.convert({"model": WEIGHTS, "x": Code(eval, f"open({str(mark)!r}, 'w')")}, _use_new_zipfile_serialization=zipped)
            self.assert_weights(WEIGHTS)
            said = self.convert({"model": WEIGHTS, "x": Code(os.system, f"touch {mark}")}, code=2, _use_new_zipfile_serialization=zipped)
            self.assertIn("it cannot be read as tensors alone: Trying to load unsupported GLOBAL posix.system whose module posix is blocked.", said)
        self.assertFalse(mark.exists())

    def test_the_reason_is_that_of_torch_alone(self):
        said = self.convert({"model": WEIGHTS, "x": collections.deque([1, 2])}, code=2)
        self.assertRegex(said, r"as tensors alone: Can only extend lists, but got <class '\S*collections.deque'>\. If you trust")

    def test_which_of_several_weights_were_taken_is_reported(self):
        average = {name: value + 1 for name, value in WEIGHTS.items()}
        for trained, averaged in (("model", "model_ema"), ("model", "ema"), ("state_dict", "state_dict_ema")):
            content = {averaged: average, trained: WEIGHTS, "optimizer": {"state": {0: {"step": torch.ones(1)}}}}
            self.assertIn(f"; these are those of '{trained}': --key takes '{averaged}'\n", self.convert(content))
            self.assert_weights(WEIGHTS)
            self.convert(content, "--key", averaged)
            self.assert_weights(average)

    def test_a_module_and_what_is_no_tensor_are_named(self):
        module = torch.nn.Linear(2, 2)
        self.assertIn("it holds a whole module, torch.nn.modules.linear.Linear", self.convert(module, code=2))
        self.assertIn("there are 'model' (torch.nn.modules.linear.Linear), 'ema'", self.convert({"model": module, "ema": module}, code=2))
        self.assertIn("; left out, as no tensors: n\n", self.convert({"model": {**WEIGHTS, "n": numpy.float32(2)}}))


class OtherPython(unittest.TestCase):
    @unittest.skipUnless((ROOT / ".venv/bin/python").exists(), "this clone has no .venv")
    def test_a_python_without_torch_hands_over_to_the_clones(self):
        bare = ["env", "-u", "PYTHONPATH", sys._base_executable, "-S", "-B"]  # without site-packages
        for tool in ("convert_weights", "export_model"):
            done = subprocess.run([*bare, ROOT / "tools" / tool, "--help"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            torch.save(WEIGHTS, f"{folder}/w.pth")
            done = subprocess.run([*bare, ROOT / "tools/convert_weights", f"{folder}/w.pth", f"{folder}/w.st"], capture_output=True, text=True)
        self.assertIn("2 tensors, 5 numbers", done.stdout, done.stderr)


if __name__ == "__main__":
    unittest.main()

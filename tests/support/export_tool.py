# SPDX-License-Identifier: MIT
"""tools/export_model in the test's own process, which has torch loaded."""

import contextlib
import importlib.util
import io
import os
import pathlib
import sys
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/lib"))

import tooling.place  # noqa: E402, F401; makes ddprun known


class ExportTool:
    """For a test case, which defines export(name, code) by run_export()."""

    def run_export(self, *words, code=0):
        """Returns what the tool says."""
        from export_model.__main__ import main
        from tooling.start import run_tool

        said = io.StringIO()
        with unittest.mock.patch("sys.argv", ["export_model", *words]), contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            with self.assertRaises(SystemExit) as ended:
                run_tool(main, "export_model")
        self.assertEqual(ended.exception.code, code, said.getvalue())
        return said.getvalue()

    def written_module(self, name, text):
        """Writes a module into the test's folder, which is the current one until the test ends. Returns it."""
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        file = self.folder / f"{name}.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def assert_each_refused(self, names):
        """{name: a text, or several}: each in one line that has them."""
        for name, texts in names.items():
            with self.subTest(name):
                said = self.export(name, code=2)
                self.assertEqual(len(said.splitlines()), 1, said)
                for text in [texts] if isinstance(texts, str) else texts:
                    self.assertIn(text, said)

# SPDX-License-Identifier: MIT
"""docs/notebook.ipynb, as nbconvert runs it: it trains, reads what was measured, and shows the curve."""

import json
import os
import pathlib
import shutil
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/end_to_end"))

from browser import report_in  # noqa: E402
from command import DDPRUN, CommandTest, all_rows  # noqa: E402


class Notebook(CommandTest):
    def test_it_trains_and_shows_what_was_measured(self):
        shutil.copy(ROOT / "docs/notebook.ipynb", self.folder)
        self.assertFalse(any(self.outputs(cell) for cell in self.code_cells("notebook.ipynb")), "it is kept without outputs")
        running = self.start_program(
            sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", "notebook.ipynb",
            env={"PYTHONPATH": str(ROOT / "sdk/python"), "DDPRUN_PROGRAM": str(DDPRUN), "PATH": os.environ["PATH"]})  # fmt: skip
        self.assertEqual(running.wait(240), 0, running.text())
        train, shown, table, weights, runs = self.code_cells("notebook.ipynb")[1:]
        self.assertIn("Training Summary", "".join(text for output in train["outputs"] for text in output["text"]))

        rows = [row for row in all_rows(self.folder / "outputs/digits/latest") if row["split"] == "val"]
        self.assertEqual(len(rows), 2)
        [reported] = report_in(self.outputs(shown)["text/html"])["runs"]
        [curve] = [one for one in reported["curves"] if (one["split"], one["name"]) == ("val", "loss")]
        self.assertEqual(curve["points"]["step"], [row["step"] for row in rows])
        frame = self.outputs(table)["text/html"]
        self.assertIn('class="dataframe"', frame)
        for row in rows:
            self.assertIn(f"<td>{row['loss']:.6f}</td>", frame)
        self.assertIn("'fc2.bias': (10,)", self.outputs(weights)["text/plain"])
        self.assertIn("1 run in", self.outputs(runs)["text/html"])

    def code_cells(self, name):
        cells = json.loads((self.folder / name).read_text())["cells"]
        return [cell for cell in cells if cell["cell_type"] == "code"]

    def outputs(self, cell):
        """{kind: text} of the value that the cell shows."""
        shown = [output["data"] for output in cell["outputs"] if "data" in output]
        return {kind: "".join(text) for kind, text in shown[-1].items()} if shown else {}


if __name__ == "__main__":
    unittest.main()

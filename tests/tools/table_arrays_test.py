# SPDX-License-Identifier: MIT
"""Arrays of a table, for `ddprun init wine.csv`, on what files really hold: each oddity is refused with its place, and the rows that
were used and those that were left out are all that there were."""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import unittest
import unittest.mock

import numpy
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/end_to_end"), str(ROOT / "tools/lib")]

import tooling.place  # noqa: E402, F401; makes ddprun known
from command import use_peers  # noqa: E402
from table_arrays.__main__ import main  # noqa: E402
from tooling.start import run_tool  # noqa: E402


class Tables(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(contextlib.chdir(self.folder))

    def run_words(self, content, *words, name="t.csv"):
        """Returns the exit code, what it said, and the arrays that it wrote of a table, with the names of classes."""
        if content is not None:
            pathlib.Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        said, out = io.StringIO(), pathlib.Path("out")
        with unittest.mock.patch("sys.argv", ["ddprun init", f"--table={name}", *words, "--out", str(out)]), contextlib.redirect_stderr(said):
            with contextlib.redirect_stdout(said), self.assertRaises(SystemExit) as ended:
                run_tool(main, "ddprun init")
        arrays = load_file(out / "train.safetensors") if out.exists() else None
        if (out / "classes.json").exists():
            arrays["names"] = json.loads((out / "classes.json").read_text())
        shutil.rmtree(out, ignore_errors=True)
        return ended.exception.code, said.getvalue(), arrays

    def refused(self, text, content, *words, name="t.csv"):
        code, said, arrays = self.run_words(content, *words, name=name)
        self.assertEqual((code, arrays, len(said.splitlines())), (2, None, 1), said)
        self.assertIn(text, said)

    def read(self, content, *words, name="t.csv"):
        code, said, arrays = self.run_words(content, *words, name=name)
        self.assertEqual(code, 0, said)
        return said, arrays

    REFUSED = {
        "two columns of one name": ("a,a,y\n1,2,3\n", "the columns: 'a' and 'a' come twice"),
        "names that differ in case": ("y,Y ,b\n1,2,3\n", "'y' and 'Y' differ in blanks or case"),
        "no name": (",a,y\n0,1,2\n", "the column 1 has no name"),
        "pandas' index": ("Unnamed: 0,a,y\n0,1,2\n", "the column Unnamed: 0 may be the rows' numbers"),
        "no names at all": ("5,2,7.5\n1,2,3\n", "its first line holds numbers"),
        "nothing": ("", "it has no columns"),
        "names alone": ("a,y\n", "it has no rows"),
        "the target alone": ("y\n1\n", "there are no numbers in it but the target"),
        "too few": ("a,b,y\n1,2,3\n1,2\n", "t.csv:3: it has 2 values, and the first line names 3 columns"),
        "too many": ("a,b,y\n\n1,2,3,4\n", "t.csv:3: it has 4 values"),
        "not a number": ("a,y\n1,2\nx,2\n", "t.csv:3: the column a holds 'x', which is no number"),
        "a decimal comma": ("a;y\n1,5;2\n", "t.csv:2: the column a holds '1,5', which is no number"),
        "Python's own number": ("a,y\n1_0,2\n", "t.csv:2: the column a holds '1_0', which is no number"),
        "nan": ("a,b,y\n1,2,3\n1,nan,3\n", "t.csv:3: the column b holds 'nan'"),
        "infinite": ("a,b,y\n1,-inf,3\n", "t.csv:2: the column b holds '-inf'"),
        "too large": ("a,b,y\n1,1e39,3\n", "t.csv:2: the column b holds '1e39'"),
        "empty": ("a,b,y\n1,,3\n", "t.csv:2: the column b holds ''"),
        "an empty target": ("a,y\n1,0\n1, \n", "t.csv:3: the column y holds ''"),
        "a target that is infinite": ("a,y\n1,0.5\n2,inf\n", "t.csv:3: the target is inf"),
        "numbers and names": ("a,y\n1,0.5\n2,N/A\n", "t.csv:3: the target is 'N/A', and others are numbers"),
        "classes from -1": ("a,y\n1,-1\n2,1\n", "2 different whole numbers from -1 to 1"),
        "classes with gaps": ("a,y\n1,0\n2,2\n", "--task classification makes them the classes 0 to 1"),
        "classes that differ in case": ("a,y\n1,True\n2,true\n", "'True' and 'true' differ in blanks or case"),
        "an open quote": ('a,y\n1,0\n"2,1\n3,0\n', "t.csv:3: a quote that is opened here is not closed"),
        "a quote inside": ('a,y\n"1"2,0\n', "t.csv:2: "),
        "Latin-1": ("a,y\n1,caf\N{LATIN SMALL LETTER E WITH ACUTE}\n".encode("latin-1"), "t.csv:2: it is not UTF-8"),
        "UTF-16": ("a,y\n1,0\n".encode("utf-16"), "t.csv:1: there is a zero byte in it"),
    }  # fmt: skip

    def test_an_oddity_is_refused_with_its_place(self):
        for what, (content, text) in self.REFUSED.items():
            with self.subTest(what):
                self.refused(text, content, "--target", "y")
        self.refused("--input y: it is the target", "a,y\n1,0\n", "--target", "y", "--input", "a,y")
        self.refused("there is no column z; there are a, y", "a,y\n1,0\n", "--target", "z")
        os.mkfifo("fifo.csv")
        self.refused("fifo.csv: it is not a file", None, name="fifo.csv")
        self.refused("no?where.csv: no such file", None, name="no\x1bwhere.csv")  # a terminal would obey it

    READ = {
        "a mark at the beginning": "a,b,y\n1,2,0\n3,4,1\n".encode("utf-8-sig"),
        "ends of lines of Windows": "a,b,y\r\n1,2,0\r\n3,4,1\r\n",
        "ends of lines of old Macs": "a,b,y\r1,2,0\r3,4,1\r",
        "no end of the last line": "a,b,y\n1,2,0\n3,4,1",
        "semicolons": "a;b;y\n1;2;0\n3;4;1\n",
        "tabs": "a\tb\ty\n1\t2\t0\n3\t4\t1\n",
        "quotes": '"a","b","y"\n"1","2","0"\n"3","4","1"\n',
        "blanks": "a, b, y\n1, 2, 0\n 3 ,4 , 1\n",
        "empty lines": "a,b,y\n\n1,2,0\n\n\n3,4,1\n\n",
    }

    def test_what_programs_write_is_read(self):
        for what, content in self.READ.items():
            with self.subTest(what):
                said, found = self.read(content, "--target", "y")
                self.assertEqual((found["input"].tolist(), found["target"].tolist()), ([[1, 2], [3, 4]], [0, 1]))
                self.assertEqual("separated by" in said, what in ("semicolons", "tabs"))
                self.assertEqual("empty lines: 4" in said, what == "empty lines")

    def test_targets_become_what_they_are_or_what_is_asked_for(self):
        for column, task, targets, names in (
                (["-1", "5", "-1"], "classification", [0, 1, 0], ["-1", "5"]),
                (["-1", "5", "-1"], "regression", [[-1], [5], [-1]], None),
                (["low ", "low", "high"], None, [1, 1, 0], ["high", "low"]),
                (["none", "some", "none"], None, [0, 1, 0], ["none", "some"]),
                (["007", "012", "007"], None, [0, 1, 0], ["007", "012"]),
                (["2", "0", "1"], None, [2, 0, 1], None),
                (["0.5", "2", "1e3"], None, [[0.5], [2], [1000]], None)):  # fmt: skip
            with self.subTest(column):
                _, found = self.read("a,flag,y\n" + "".join(f"1,True,{value}\n" for value in column), *(["--task", task] if task else []))
                self.assertEqual((found["target"].tolist(), found.get("names")), (targets, names))
                self.assertEqual(found["input"].tolist(), [[1, 1]] * 3)

    def test_rows_used_and_rows_left_out_are_all_rows(self):
        draw = random.Random(3)
        for _ in range(30):
            rows = [[draw.choice(["1", "2.5", "-3", " 4", "", "nan", "NA", "inf"]) if draw.random() < 0.3 else "7" for _ in range(3)]
                    + [draw.choice(["0", "1"])] for _ in range(draw.randrange(8, 40))]  # fmt: skip
            rows += [["1", "1", "1", "0"], ["1", "1", "1", "1"]]
            draw.shuffle(rows)
            good = [[float(value) for value in row] for row in rows if not {"", "nan", "NA", "inf"} & set(row)]
            said, found = self.read("left,a,b,c,y\n" + "".join(",".join(["x", *row]) + "\n" for row in rows), "--input", "a,b,c", "--drop-missing")
            self.assertEqual(numpy.column_stack([found["input"], found["target"]]).tolist(), good)
            self.assertIn(f"t.csv: {len(good)} of {len(rows)} rows, inputs of 3", said)
            left = len(rows) - len(good)
            self.assertEqual(f"left out: rows with a missing value: {left}" in said, left > 0)
            self.assertIn("; columns left out: left", said)

    def test_what_is_stopped_leaves_nothing(self):
        pathlib.Path("t.csv").write_text("a,y\n1,0\n2,1\n")
        with unittest.mock.patch("safetensors.numpy.save_file", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            with unittest.mock.patch("sys.argv", ["ddprun init", "--table=t.csv", "--out=out"]):
                main()
        self.assertEqual(os.listdir(), ["t.csv"])

    def test_columns_of_parquet_are_those_of_a_text(self):
        use_peers()
        if not importlib.util.find_spec("pyarrow"):
            self.skipTest("there is no Python package pyarrow")
        import pyarrow.parquet

        for column, targets, names in (([0.5, 1.5], [[0.5], [1.5]], None), ([True, False], [1, 0], ["False", "True"]), (["b", "a"], [1, 0], ["a", "b"])):
            pyarrow.parquet.write_table(pyarrow.table({"v": [1, 2], "w": [0.1, None], "z": [3.0, 4.0], "y": column}), "t.parquet")
            said, found = self.read(None, "--input", "z,v", name="t.parquet")
            self.assertEqual((found["input"].tolist(), found["target"].tolist(), found.get("names")), ([[3, 1], [4, 2]], targets, names), said)
        self.refused("t.parquet: row 1: the column w holds ''", None, name="t.parquet")
        pathlib.Path("torn.parquet").write_bytes(pathlib.Path("t.parquet").read_bytes()[:-9])
        self.refused("torn.parquet: ", None, name="torn.parquet")


if __name__ == "__main__":
    unittest.main()

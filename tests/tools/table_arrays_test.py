# SPDX-License-Identifier: MIT
"""Arrays of a table, for `ddprun init wine.csv`, on what files really hold: each oddity is refused with its place, or told, and the
rows that were used and those that were left out are all that there were."""

import contextlib
import importlib.util
import io
import itertools
import json
import os
import pathlib
import random
import re
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
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.outs = (f"out{number}" for number in itertools.count())

    def run_words(self, *words):
        """Returns the exit code, what it said, and the folder that it wrote."""
        said, out = io.StringIO(), pathlib.Path(next(self.outs))
        with unittest.mock.patch("sys.argv", ["ddprun init", *words, "--out", str(out)]), contextlib.redirect_stderr(said):
            with contextlib.redirect_stdout(said), self.assertRaises(SystemExit) as ended:
                run_tool(main, "ddprun init")
        return ended.exception.code, said.getvalue(), out

    def refused(self, text, *words):
        before = set(os.listdir())
        code, said, _ = self.run_words(*words)
        self.assertEqual(code, 2, said)
        self.assertIn(text, said)
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertEqual(set(os.listdir()), before)

    def read(self, *words):
        code, said, out = self.run_words(*words)
        self.assertEqual(code, 0, said)
        return said, load_file(out / "train.safetensors"), out

    REFUSED = {
        "two columns of one name": ("a,a,y\n1,2,3\n", "the columns: 'a' and 'a' come twice"),
        "names that differ in blanks": ("a, a,y\n1,2,3\n", "the columns: 'a' and 'a' come twice"),
        "names that differ in case": ("y,Y,b\n1,2,3\n", "'y' and 'Y' differ in blanks, case"),
        "no name": (",a,y\n0,1,2\n", "the column 1 has no name"),
        "no name at the end": ("a,y,\n0,1,\n", "the column 3 has no name"),
        "pandas' index": ("Unnamed: 0,a,y\n0,1,2\n", "the column Unnamed: 0 may be the rows' numbers"),
        "no names at all": ("5,2,7.5\n1,2,3\n", "its first line holds numbers"),
        "nothing": ("", "there is no column y"),
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
        "an empty target": ("a,y\n1,0\n1, \n", "t.csv:3: the column y is empty"),
        "a target that is not a number": ("a,y\n1,nan\n", "t.csv:2: the column y is empty"),
        "a target that is infinite": ("a,y\n1,0.5\n2,inf\n", "t.csv:3: the target is inf"),
        "numbers and names": ("a,y\n1,0.5\n2,N/A\n", "t.csv:3: the target is 'N/A', and others are numbers"),
        "classes from -1": ("a,y\n1,-1\n2,1\n", "2 different whole numbers from -1 to 1"),
        "classes with gaps": ("a,y\n1,0\n2,2\n", "--task classification makes them the classes 0 to 1"),
        "classes that differ in case": ("a,y\n1,True\n2,true\n", "'True' and 'true' differ in blanks, case"),
        "classes that differ in form": ("a,y\n1,\N{LATIN SMALL LETTER E WITH ACUTE}\n2,\N{LATIN CAPITAL LETTER E}\N{COMBINING ACUTE ACCENT}\n",
                                        "differ in blanks, case or the form of Unicode"),
        "an open quote": ('a,y\n1,0\n"2,1\n3,0\n', "t.csv:3: a quote that is opened here is not closed"),
        "a quote inside": ('a,y\n"1"2,0\n', "t.csv:2: "),
        "Latin-1": ("a,y\n1,caf\N{LATIN SMALL LETTER E WITH ACUTE}\n".encode("latin-1"), "t.csv:2: it is not UTF-8: the byte 0xE9"),
        "UTF-16": ("a,y\n1,0\n".encode("utf-16"), "t.csv:1: there is a zero byte in it"),
        "UTF-16 without a mark": ("a,y\n1,0\n".encode("utf-16-be"), "t.csv:1: there is a zero byte in it"),
        "a zero byte": ("a,y\n1,0\n2\0,1\n", "t.csv:3: there is a zero byte in it"),
    }  # fmt: skip

    def test_an_oddity_is_refused_with_its_place(self):
        for what, (content, text) in self.REFUSED.items():
            with self.subTest(what):
                write("t.csv", content)
                self.refused(text, "--table=t.csv", "--target", "y")

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
                write("t.csv", content)
                said, found, _ = self.read("--table=t.csv", "--target", "y")
                self.assertEqual(found["input"].tolist(), [[1, 2], [3, 4]])
                self.assertEqual(found["target"].tolist(), [0, 1])
                self.assertEqual("separated by" in said, what in ("semicolons", "tabs"))
                self.assertEqual("empty lines: 4" in said, what == "empty lines")

    def test_numbers_that_are_no_classes_become_what_is_asked_for(self):
        write("t.csv", "a,y\n1,-1\n2,5\n3,-1\n")
        said, found, out = self.read("--table=t.csv", "--target", "y", "--task", "classification")
        self.assertIn("2 classes: 0 -1, 1 5", said)
        self.assertEqual(found["target"].tolist(), [0, 1, 0])
        self.assertEqual(json.loads((out / "classes.json").read_text()), ["-1", "5"])
        _, found, _ = self.read("--table=t.csv", "--target", "y", "--task", "regression")
        self.assertEqual(found["target"].tolist(), [[-1], [5], [-1]])

    def test_blanks_of_classes_are_no_part_of_them(self):
        write("t.csv", "a,y\n1,low \n2,low\n3,high\n")
        said, found, _ = self.read("--table=t.csv", "--target", "y")
        self.assertEqual(found["target"].tolist(), [1, 1, 0])
        self.assertIn("changed: blanks at the ends of names of classes: 1, the first is t.csv:2", said)

    def test_columns_that_are_not_used_and_digits_that_are_lost_are_told(self):
        write("t.csv", ",time,a,y\n0,1700000001,3,0\n1,16777216,4,1\n")
        said, _, _ = self.read("--table=t.csv", "--target", "y", "--input", "time")
        self.assertRegex(said, "columns left out: , a; changed: digits of the column time that float32 does not hold: 1, the first is t.csv:2")
        said, _, _ = self.read("--table=t.csv", "--target", "time", "--input", "a", "--task", "regression")
        self.assertIn("changed: digits of the target that float32 does not hold: 1, the first is t.csv:2", said)
        self.assertIn("--input y: it is the target", self.run_words("--table=t.csv", "--target", "y", "--input", "a,y")[1])

    def test_rows_used_and_rows_left_out_are_all_rows(self):
        draw = random.Random(3)
        for _ in range(30):
            rows = [[draw.choice(["1", "2.5", "-3", " 4", "", "nan", "NA", "inf"]) if draw.random() < 0.3 else "7" for _ in range(3)]
                    + [draw.choice(["0", "1"])] for _ in range(draw.randrange(8, 40))]  # fmt: skip
            rows += [["1", "1", "1", "0"], ["1", "1", "1", "1"]]
            draw.shuffle(rows)
            empty = draw.randrange(3)
            write("t.csv", "a,b,c,y\n" + "\n" * empty + "".join(",".join(row) + "\n" for row in rows))
            good = [[float(value) for value in row] for row in rows if not {"", "nan", "NA", "inf"} & set(row)]
            said, found, _ = self.read("--table=t.csv", "--target", "y", "--drop-missing")
            self.assertEqual(numpy.column_stack([found["input"], found["target"]]).tolist(), good)
            used, seen = map(int, re.search(r"t.csv: (\d+) of (\d+) rows", said).groups())
            left = re.search(r"rows with a missing value: (\d+)", said)
            self.assertEqual((used, seen, used + int(left[1] if left else 0)), (len(good), len(rows), len(rows)))
            self.assertEqual(f"empty lines: {empty}" in said, empty > 0)


    def test_a_fifo_and_a_file_that_is_not_there_are_refused(self):
        os.mkfifo("t.csv")
        self.refused("t.csv: it is not a file", "--table=t.csv")
        self.refused("no?where.csv: no such file", "--table=no\x1bwhere.csv")  # a terminal would obey it

    def test_what_is_stopped_leaves_nothing(self):
        write("t.csv", "a,y\n1,0\n2,1\n")
        with unittest.mock.patch("safetensors.numpy.save_file", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            with unittest.mock.patch("sys.argv", ["ddprun init", "--table=t.csv", "--out=out"]):
                main()
        self.assertEqual(os.listdir(), ["t.csv"])

    def test_columns_of_parquet_may_hold_lists(self):
        use_peers()
        if not importlib.util.find_spec("pyarrow"):
            self.skipTest("there is no Python package pyarrow")
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"v": [[[1.0, 2.0]], [[3.0, 4.0]]], "price": [0.5, 1.5]}), "t.parquet")
        _, found, _ = self.read("--table=t.parquet")
        self.assertEqual((found["input"].tolist(), found["target"].tolist()), ([[[1, 2]], [[3, 4]]], [[0.5], [1.5]]))
        self.assertEqual((found["input"].dtype, found["target"].dtype), (numpy.float32, numpy.float32))
        pyarrow.parquet.write_table(pyarrow.table({"v": [1, 2], "mask": [[0, 1], [1, 1]]}), "t.parquet")
        self.assertEqual(self.read("--table=t.parquet")[1]["target"].tolist(), [[0, 1], [1, 1]])
        self.refused("t.parquet: there is no column y; there are v, mask", "--table=t.parquet", "--target", "y")
        pathlib.Path("torn.parquet").write_bytes(pathlib.Path("t.parquet").read_bytes()[:-9])
        self.refused("torn.parquet: ", "--table=torn.parquet")


def write(name, content):
    pathlib.Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())


if __name__ == "__main__":
    unittest.main()

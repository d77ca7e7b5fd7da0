# SPDX-License-Identifier: MIT
"""tests/summary: what it puts before CTest's last lines, and when a run of tests fails because it took too much CPU time."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
LOADER = importlib.machinery.SourceFileLoader("summary", str(TESTS / "summary"))
summary = importlib.util.module_from_spec(importlib.util.spec_from_loader("summary", LOADER))
LOADER.exec_module(summary)

CTEST = "Test project /b\n1/2 Test #1: A ... Passed\n"
LAST = "100% tests passed, 0 tests failed out of 2\n\nTotal Test time (real) = 1 sec\n"
LOG = """1/2 Testing: A
skipped: no data
Test time =   0.01 sec
2/2 Testing: B
test_x ... skipped 'no zsh'
test_y ... skipped "no zsh"
Test time =   0.01 sec
"""


def row(test, label, cpu, reference=0.02):
    return {"test": test, "label": label, "cpu": cpu, "reference": reference}


class Summary(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def judged(self, rows, budget):
        """What say_cpu() prints, and what it finds wrong."""
        record = self.folder / "cpu.jsonl"
        record.write_text("".join(json.dumps(line) + "\n" for line in rows))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            return printed, summary.say_cpu(record, summary.read_budget(budget))

    def test_what_was_skipped_stands_before_ctests_last_lines(self):
        (self.folder / "log").write_text(LOG)
        ended = subprocess.run([sys.executable, "-B", TESTS / "summary", self.folder / "log"], input=CTEST + LAST, stdout=subprocess.PIPE, text=True)
        self.assertEqual(ended.stdout, CTEST + "ddprun: skipped:\n  no data: A\n  no zsh: 2 of B\n" + LAST)
        self.assertEqual(ended.returncode, 0)

    def test_a_label_that_took_too_much_ends_it_with_1_and_the_dearest_tests(self):
        (self.folder / "log").write_text("")
        (self.folder / "cpu.jsonl").write_text(json.dumps(row("A.Dear", "unit", 1e9)) + "\n")
        ended = subprocess.run([sys.executable, "-B", TESTS / "summary", self.folder / "log", "all", self.folder / "cpu.jsonl"],
                               input=CTEST + LAST, capture_output=True, text=True)  # fmt: skip
        self.assertEqual(ended.returncode, 1)
        self.assertTrue(ended.stdout.endswith(LAST))
        self.assertRegex(ended.stderr, r"label unit took 1000000000 s of CPU time, .* The dearest are A\.Dear 1000000000 s\.")

    def test_each_label_has_one_and_a_half_times_its_figure_for_all_of_its_tests(self):
        budget = "reference 0.02\nunit 10  # a remark\ndist 1\n"
        for rows, wrong in (([row("A", "unit", 8), row("B", "unit", 6)], 0), ([row("A", "unit", 8), row("B", "unit", 8)], 1),
                            ([row("A", "dist", 2), row("B", "unit", 16)], 2), ([row("A", "nightly", 1000)], 0), ([], 0)):  # fmt: skip
            self.assertEqual(len(self.judged(rows, budget)[1]), wrong, rows)

    def test_a_slow_machine_has_more_and_ten_are_shown_the_dearest_first(self):
        for reference, wrong in ((0.02, 1), (0.04, 0), (0.01, 1)):
            rows = [row("A", "unit", 20, reference), row("B", "unit", 5, reference), row("C", "unit", 0, 1000)]
            self.assertEqual(len(self.judged(rows, "reference 0.02\nunit 10\n")[1]), wrong, reference)
        printed, _ = self.judged([row(f"T{number}", "unit", number) for number in range(12)], "reference 0.02\nunit 100\n")
        self.assertEqual(re.findall(r"T\d+", printed.getvalue()), [f"T{number}" for number in range(11, 1, -1)])

    def test_what_is_left_out_is_counted_by_label(self):
        tests = [{"name": name, "command": ["start", name, labels[0], *parts, "--", "true"], "properties": [{"name": "LABELS", "value": labels}]}
                 for name, labels, parts in (("A", ["unit"], []), ("B", ["end_to_end"], []), ("C", ["end_to_end", "quick"], ["T.t"]),
                                             ("D", ["dist"], []), ("E", ["end_to_end", "quick"], []), ("F", ["end_to_end"], []))]  # fmt: skip
        self.assertEqual(summary.left_out(tests), ({"end_to_end": 2, "dist": 1}, 1))

    def test_each_label_of_the_tests_has_a_figure(self):
        labels = {"unit", "end_to_end"}  # what the functions of CMake take where nothing is said
        for lists in TESTS.glob("*/CMakeLists.txt"):
            labels |= set(re.findall(r"\bLABEL (\w+)", lists.read_text()))
        labels.remove("gpu")  # what that costs depends on the GPU
        self.assertLessEqual(labels, set(summary.read_budget((TESTS / "cpu_budget.txt").read_text())))


if __name__ == "__main__":
    unittest.main()

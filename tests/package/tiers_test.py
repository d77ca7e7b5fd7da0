# SPDX-License-Identifier: MIT
"""tools/test, in a scratch clone that has nothing to build: which tests it runs, what it says at its end, and how it ends."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# {test: (its labels, its quick parts, its command)}: each says its parts, whether its CPU time is measured, and whether torch is shared.
SAY = ["sh", "-c", 'echo "reported: $1 ${2:-whole} ${DDPRUN_CPU_RECORD:+measured} ${DDPRUN_SHARED_TORCH:+shared}"', "sh"]
TESTS = {"A.Unit": ("unit", "", [*SAY, "A.Unit"]), "B.Quick": ("end_to_end;quick", "part", [*SAY, "B.Quick"]),
         "C.Long": ("dist", "", [*SAY, "C.Long"]), "D.Fails": ("package", "", ["false"])}  # fmt: skip


class Tiers(unittest.TestCase):
    def setUp(self):
        if not (ROOT / ".venv/bin/ctest").exists():
            self.skipTest("there is no .venv/bin/ctest, which tools/test runs")
        self.clone = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "a clone"
        for folder in ("tools", "build/release"):
            (self.clone / folder).mkdir(parents=True)
        for name in (".venv", "tests"):
            (self.clone / name).symlink_to(ROOT / name)
        shutil.copy(ROOT / "tools/test", self.clone / "tools/test")
        (self.clone / "tools/build").write_text("#!/bin/sh\n")
        (self.clone / "tools/build").chmod(0o755)

    def run_tests(self, *words, tests=("A.Unit", "B.Quick", "C.Long"), **changes):
        """Returns the exit code, what each test reported, and the lines of the end."""
        lines = []
        for name in tests:
            labels, parts, command = TESTS[name]
            start = [sys.executable, "-ISB", ROOT / "tests/start", name, labels.partition(";")[0], *parts.split(), "--", *command]
            quoted = " ".join(f"[==[{word}]==]" for word in start)
            lines += [f"add_test({name} {quoted})", f'set_tests_properties({name} PROPERTIES LABELS "{labels}")']
        (self.clone / "build/release/CTestTestfile.cmake").write_text("\n".join(lines))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DDPRUN_")}
        ended = subprocess.run([self.clone / "tools/test", *words, "-V"] if words else [self.clone / "tools/test"], env=kept | changes,
                               capture_output=True, text=True)  # fmt: skip
        log = (self.clone / "build/release/Testing/Temporary/LastTest.log").read_text()
        return ended.returncode, sorted(re.findall("^reported: (.*?) *$", log, re.MULTILINE)), ended.stdout + ended.stderr

    def test_without_a_word_it_runs_what_is_quick_and_says_what_was_left(self):
        code, reported, said = self.run_tests()
        self.assertEqual((code, reported), (0, ["A.Unit whole  shared", "B.Quick part  shared"]))
        self.assertRegex(said, r"ddprun: left to tools/test all: 1 tests \(1 dist\), and the rest of 1 .*\n100% tests passed")

    def test_all_runs_every_test_as_a_whole_and_measures_it(self):
        code, reported, said = self.run_tests("all")
        self.assertEqual((code, reported), (0, [f"{name} whole measured shared" for name in ("A.Unit", "B.Quick", "C.Long")]))
        self.assertRegex(said, r"the dearest tests(.*\n)*ddprun: the CPU time of each label(.*\n)*100% tests passed")

    def test_words_for_ctest_choose_whole_tests(self):
        self.assertEqual(self.run_tests("-R", "B.Quick")[:2], (0, ["B.Quick whole  shared"]))
        self.assertEqual(self.run_tests("-R", "B.Quick", DDPRUN_QUICK="1", DDPRUN_START="exec")[:2], (0, ["B.Quick part"]))
        self.assertEqual(self.run_tests("all", "-L", "dist")[:2], (0, ["C.Long whole measured shared"]))

    def test_a_test_that_fails_fails_it(self):
        for words in ((), ("all",)):
            self.assertEqual(self.run_tests(*words, tests=("A.Unit", "D.Fails"))[0], 8 if words else 0)


if __name__ == "__main__":
    unittest.main()

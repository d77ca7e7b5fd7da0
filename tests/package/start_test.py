# SPDX-License-Identifier: MIT
"""tests/start: what it starts is the test alone, with the parts that are quick, and its CPU time is noted where that is asked for."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

START = pathlib.Path(__file__).resolve().parents[1] / "start"
BUSY = "import time\nwhile time.process_time() < 0.2: pass"


class Start(unittest.TestCase):
    def setUp(self):
        self.record = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "cpu.jsonl"

    def command(self, *command, parts=()):
        return [sys.executable, "-ISB", START, "A.Test", "unit", *parts, "--", *command]

    def environment(self, measured=True, quick=False):
        env = {name: value for name, value in os.environ.items() if name not in ("DDPRUN_QUICK", "DDPRUN_CPU_RECORD")}
        return env | ({"DDPRUN_CPU_RECORD": str(self.record)} if measured else {}) | ({"DDPRUN_QUICK": "1"} if quick else {})

    def assert_ends(self, *command, code=0, out="", err="", given="", parts=(), quick=False):
        for measured in (True, False):
            ended = subprocess.run(self.command(*command, parts=parts), env=self.environment(measured, quick), input=given,
                                   capture_output=True, text=True)  # fmt: skip
            self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (code, out, err), f"{command}, measured: {measured}")

    def test_parts_are_added_where_quick_tests_are_asked_for(self):
        self.assert_ends("echo", "-v", out="-v\n", parts=("A.b", "C"))
        self.assert_ends("echo", "-v", out="-v A.b C\n", parts=("A.b", "C"), quick=True)

    def test_the_streams_the_exit_code_and_the_signal_are_the_tests(self):
        self.assert_ends("sh", "-c", "cat; echo b >&2; exit 77", given="a\n", out="a\n", err="b\n", code=77)
        for number in (9, 11, 15):
            self.assert_ends("sh", "-c", f"kill -{number} $$", code=-number)

    def test_it_ignores_the_signals_that_were_ignored_before(self):
        look = ["grep", "SigIgn", "/proc/self/status"]
        self.assert_ends(*look, out=subprocess.run(look, stdout=subprocess.PIPE, text=True, check=True).stdout)

    def test_the_time_is_that_of_all_processes_that_were_waited_for(self):
        busy = f"{sys.executable} -ISc '{BUSY}'"
        for script in (f"{busy}; {busy}", "true"):
            subprocess.run(self.command("sh", "-c", script), env=self.environment(), check=True)
        busy, idle = map(json.loads, self.record.read_text().splitlines())
        self.assertEqual((busy["test"], busy["label"]), ("A.Test", "unit"))
        self.assertGreater(busy["cpu"], 0.4)
        self.assertLess(idle["cpu"], 0.4)
        self.assertGreater(idle["reference"], 0)

    def test_the_test_does_not_outlive_it(self):
        with subprocess.Popen(self.command("cat"), env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
            started.stdin.write(b"a\n")
            started.stdin.flush()
            self.assertEqual(started.stdout.readline(), b"a\n")
            started.kill()
            self.assertEqual(started.stdout.read(), b"")  # once nobody can write any more

    def test_what_is_not_there_is_told(self):
        self.assert_ends("/none", code=127, err="tests/start: /none: No such file or directory; is it built?\n")


if __name__ == "__main__":
    unittest.main()

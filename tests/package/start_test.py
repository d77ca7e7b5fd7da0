# SPDX-License-Identifier: MIT
"""tests/start: what it starts is the test alone, and its CPU time is noted where that is asked for. A file that
needs torch is forked from tests/shared_torch, and is one that Python has started, but for the time that torch takes. Here torch is an empty
package, and a file names it to be forked."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
OURS = ("DDPRUN_QUICK", "DDPRUN_CPU_RECORD", "DDPRUN_SHARED_TORCH")
BUSY = "import time\nwhile time.process_time() < 0.2: pass"
SAY = """import os, sys, signal
import helper
print(os.getppid(), __name__, sys.argv[1:], os.getcwd(), os.environ.get("MINE"), sys.path[0], signal.getsignal(signal.SIGINT).__name__, input())
"""


class StartTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        self.record = self.folder / "cpu.jsonl"
        self.environment = {name: value for name, value in os.environ.items() if name not in OURS}

    def command(self, *command):
        return [sys.executable, "-ISB", TESTS / "start", "A.Test", "unit", "--", *command]

    def ended(self, *command, given="a line\n", folder=None, **changes):
        return subprocess.run(self.command(*command), env=self.environment | changes, cwd=folder, input=given,
                              capture_output=True, text=True)  # fmt: skip

    def assert_ends_with_it(self, *command, ready):
        """Once this is printed, the end of tests/start is that of all below it."""
        with subprocess.Popen(self.command(*command), env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
            started.stdin.write(b"a\n")
            started.stdin.flush()
            self.assertEqual(started.stdout.readline(), ready)
            started.kill()
            self.assertEqual(started.stdout.read(), b"")  # once nobody can write any more


class Start(StartTest):
    def assert_ends(self, *command, code=0, out="", err="", **options):
        for changes in ({"DDPRUN_CPU_RECORD": str(self.record)}, {}):
            ended = self.ended(*command, **options, **changes)
            self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (code, out, err), f"{command}, {changes}")

    def test_the_streams_the_exit_code_and_the_signals_are_the_tests(self):
        self.assert_ends("sh", "-c", "cat; echo b >&2; exit 77", out="a line\n", err="b\n", code=77)
        for number in (9, 11, 15):
            self.assert_ends("sh", "-c", f"kill -{number} $$", code=-number)
        look = ["grep", "SigIgn", "/proc/self/status"]  # those that were ignored before
        self.assert_ends(*look, out=subprocess.run(look, stdout=subprocess.PIPE, text=True, check=True).stdout)
        self.assert_ends("/none", code=127, err="tests/start: /none: No such file or directory; is it built?\n")

    def test_the_time_is_that_of_all_processes_that_were_waited_for(self):
        busy = f"{sys.executable} -ISc '{BUSY}'"
        for script in (f"{busy}; {busy}", "true"):
            self.ended("sh", "-c", script, DDPRUN_CPU_RECORD=str(self.record))
        busy, idle = map(json.loads, self.record.read_text().splitlines())
        self.assertEqual((busy["test"], busy["label"]), ("A.Test", "unit"))
        self.assertGreater(busy["cpu"], 0.4)
        self.assertLess(idle["cpu"], 0.4)
        self.assertGreater(idle["reference"], 0)

    def test_the_test_does_not_outlive_it(self):
        self.environment["DDPRUN_CPU_RECORD"] = str(self.record)
        self.assert_ends_with_it("cat", ready=b"a\n")


class SharedTorch(StartTest):
    def setUp(self):
        super().setUp()
        (self.folder / "packages/torch").mkdir(parents=True)
        for name in ("__init__.py", "_dynamo.py"):
            (self.folder / "packages/torch" / name).touch()
        (self.folder / "helper.py").write_text("import torch\n")
        self.socket = self.folder / "socket"
        self.environment |= {"PYTHONPATH": str(self.folder / "packages"), "DDPRUN_SHARED_TORCH": str(self.socket)}
        self.server = subprocess.Popen([sys.executable, "-B", "-c", self.waited_for()], env=self.environment, stdout=subprocess.PIPE)
        for end in (self.server.stdout.close, self.server.wait, self.server.kill):
            self.addCleanup(end)
        self.server.stdout.readline()

    def waited_for(self):
        """Code that is the server, and writes a line as soon as it listens."""
        return (f"import os, runpy, socket, sys\nsys.argv = ['shared_torch', {str(self.socket)!r}]\nlisten = socket.socket.listen\n"
                "def listens(self, number):\n    listen(self, number)\n    os.write(1, b'listens\\n')\n"
                f"socket.socket.listen = listens\nrunpy.run_path({str(TESTS / 'shared_torch')!r}, run_name='__main__')\n")

    def file(self, code, *words):
        (self.folder / "it_test.py").write_text(code)
        return [sys.executable, "-B", self.folder / "it_test.py", *words]

    def assert_reported(self, parent, code=SAY, mine=None, **changes):
        ended = self.ended(*self.file(code, "-v", "A.b"), folder=self.folder / "packages", **changes)
        self.assertEqual(ended.stdout, f"{parent} __main__ ['-v', 'A.b'] {self.folder}/packages {mine} {self.folder} default_int_handler a line\n")

    def test_it_has_its_words_folder_environment_streams_and_main_module(self):
        for value in ("1", "2"):
            self.assert_reported(self.server.pid, mine=value, MINE=value)
        for request in (b"", b"{\n", b" no\n"):  # a broken one ends nothing
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(self.socket))
                connection.sendall(request)
        self.assert_reported(self.server.pid)

    def test_it_is_a_process_of_its_own_where_a_library_would_be_loaded_otherwise_and_where_it_needs_no_torch(self):
        for changes in ({"OMP_NUM_THREADS": "7"}, {"DDPRUN_SHARED_TORCH": "/none"}):
            self.assert_reported(os.getpid(), **changes)
        self.assert_reported(os.getpid(), SAY.replace("helper", "json"))

    def test_it_ends_as_python_does_and_its_time_is_counted(self):
        for code, status, err in (("sys.exit(77)", 77, ""), ("sys.exit('why')", 1, "why\n"), ("os.kill(os.getpid(), 11)", -11, ""),
                                  ("import atexit; atexit.register(print, 'last', file=sys.stderr)", 0, "last\n"), (BUSY, 0, "")):
            ended = self.ended(*self.file(f"import os, sys, helper\n{code}"), DDPRUN_CPU_RECORD=str(self.record))
            self.assertEqual((ended.returncode, ended.stderr), (status, err), code)
        self.assertGreater(json.loads(self.record.read_text().splitlines()[-1])["cpu"], 0.15)
        ended = self.ended(*self.file("import helper\n\nraise KeyError(1)"))
        self.assertEqual(ended.returncode, 1)
        self.assertIn('it_test.py", line 3, in <module>', ended.stderr)

    def test_it_ends_with_what_asked_for_it_and_all_below_it_does(self):
        """While it starts more of them, too."""
        shell = "exec 3<&0; n=0; while [ $n -lt 400 ]; do cat <&3 >/dev/null & n=$((n + 1)); [ $n != 50 ] || echo begun; done; wait"
        self.assert_ends_with_it(*self.file(f"import helper, subprocess\nsubprocess.run(['sh', '-c', {shell!r}])"), ready=b"begun\n")
        self.assert_reported(self.server.pid)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""tests/shared_torch: a test that is forked from it is one that Python has started, but for the time that torch takes. Here torch is an empty
package, and a file names it to be forked."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
TELL = """import os, sys, signal
import helper
print(os.getppid(), __name__, sys.argv[1:], os.getcwd(), os.environ.get("MINE"), sys.path[0], signal.getsignal(signal.SIGINT).__name__, input())
"""


class SharedTorch(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        (self.folder / "packages/torch").mkdir(parents=True)
        for name in ("__init__.py", "_dynamo.py"):
            (self.folder / "packages/torch" / name).touch()
        (self.folder / "helper.py").write_text("import torch\n")
        self.socket, self.record = self.folder / "socket", self.folder / "cpu.jsonl"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DDPRUN_")}
        self.environment = kept | {"PYTHONPATH": str(self.folder / "packages"), "DDPRUN_SHARED_TORCH": str(self.socket)}
        self.server = subprocess.Popen([sys.executable, "-B", "-c", self.waited_for()], env=self.environment, stdout=subprocess.PIPE)
        self.addCleanup(self.server.stdout.close)
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        self.server.stdout.readline()

    def waited_for(self):
        """Code that is the server, and writes a line as soon as it listens."""
        return (f"import os, runpy, socket, sys\nsys.argv = ['shared_torch', {str(self.socket)!r}]\nlisten = socket.socket.listen\n"
                "def told(self, number):\n    listen(self, number)\n    os.write(1, b'listens\\n')\n"
                f"socket.socket.listen = told\nrunpy.run_path({str(TESTS / 'shared_torch')!r}, run_name='__main__')\n")

    def command(self, code, *words):
        (self.folder / "it_test.py").write_text(code)
        return [sys.executable, "-ISB", TESTS / "start", "A.Test", "unit", "--", sys.executable, "-B", self.folder / "it_test.py", *words]

    def ended(self, code, *words, **changes):
        return subprocess.run(self.command(code, *words), env=self.environment | changes, cwd=self.folder / "packages", input="a line\n",
                              capture_output=True, text=True)  # fmt: skip

    def told(self, parent, mine=None):
        return f"{parent} __main__ ['-v', 'A.b'] {self.folder}/packages {mine} {self.folder} default_int_handler a line\n"

    def test_it_has_its_words_folder_environment_streams_and_main_module(self):
        for value in ("1", "2"):
            self.assertEqual(self.ended(TELL, "-v", "A.b", MINE=value).stdout, self.told(self.server.pid, value))

    def test_it_is_a_process_of_its_own_where_a_library_would_be_loaded_otherwise_and_where_it_needs_no_torch(self):
        for changes in ({"OMP_NUM_THREADS": "7"}, {"DDPRUN_SHARED_TORCH": "/none"}):
            self.assertEqual(self.ended(TELL, "-v", "A.b", **changes).stdout, self.told(os.getpid()))
        self.assertEqual(self.ended(TELL.replace("helper", "json"), "-v", "A.b").stdout, self.told(os.getpid()))

    def test_it_ends_as_python_does(self):
        for code, status, err in (("sys.exit(77)", 77, ""), ("sys.exit('why')", 1, "why\n"), ("os.kill(os.getpid(), 11)", -11, ""),
                                  ("import atexit; atexit.register(print, 'last', file=sys.stderr)", 0, "last\n")):
            ended = self.ended(f"import os, sys, helper\n{code}")
            self.assertEqual((ended.returncode, ended.stderr), (status, err), code)
        ended = self.ended("import helper\n\nraise KeyError(1)")
        self.assertEqual(ended.returncode, 1)
        self.assertIn('it_test.py", line 3, in <module>', ended.stderr)

    def test_its_time_is_counted(self):
        busy = "import helper, time\nbegin = time.process_time()\nwhile time.process_time() < begin + 0.3: pass"
        self.assertEqual(self.ended(busy, DDPRUN_CPU_RECORD=str(self.record)).returncode, 0)
        self.assertGreater(json.loads(self.record.read_text())["cpu"], 0.3)

    def test_it_ends_with_whoever_asked_for_it_and_all_below_it_does(self):
        """While it starts more of them, too."""
        shell = "exec 3<&0; n=0; while [ $n -lt 400 ]; do cat <&3 & n=$((n + 1)); [ $n != 50 ] || echo begun; done; wait"
        code = f"import helper, subprocess\nsubprocess.run(['sh', '-c', {shell!r}])"
        with subprocess.Popen(self.command(code), env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
            self.assertEqual(started.stdout.readline(), b"begun\n")
            started.kill()
            self.assertEqual(started.stdout.read(), b"")  # once nobody can write any more
        self.assertEqual(self.ended(TELL, "-v", "A.b").stdout, self.told(self.server.pid))

    def test_several_run_at_once(self):
        command = self.command("import helper; print(input())")
        started = [subprocess.Popen(command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        for number, test in reversed(list(enumerate(started))):
            self.assertEqual(test.communicate(f"{number}\n")[0], f"{number}\n")
            self.assertEqual(test.returncode, 0)

    def test_a_broken_request_ends_nothing(self):
        import socket

        for request in (b"", b"{\n", b" no\n"):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(self.socket))
                connection.sendall(request)
        self.assertEqual(self.ended(TELL, "-v", "A.b").stdout, self.told(self.server.pid))


if __name__ == "__main__":
    unittest.main()

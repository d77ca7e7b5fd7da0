# SPDX-License-Identifier: MIT
"""What the launcher refuses, each with one message; and that a run on pretend GPUs cannot be taken for one on real ones."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))

from command import DDPRUN, SMALL, CommandTest, Gate, summary  # noqa: E402

RUN = pathlib.Path(__file__).resolve().parent / "run"
LIBRARIES = os.environ["PRETEND_LIBRARIES"]
QUICK = [*(word for word in SMALL if not word.startswith("launch.device")), "model=mlp", "trainer.max_steps=2"]
SECONDS = 300


class Launcher(CommandTest):
    def launch(self, *words, code=0, **settings):
        env = {"PRETEND_LIBRARIES": LIBRARIES} | {f"PRETEND_{name}": value for name, value in settings.items()}
        running = self.start_program(RUN, *words, env=env)
        self.assertEqual(running.wait(SECONDS), code, running.text())
        return running

    def assert_refused(self, reported, *words, **settings):
        running = self.launch(*words, code=2, **settings)
        self.assertEqual(running.out(), "")
        self.assertEqual(len(running.err().splitlines()), 1, running.err())
        self.assertIn(reported, running.err())

    def test_what_cannot_be_started_is_reported_in_one_line(self):
        self.assert_refused("expected a command")
        self.assert_refused("there is no program no-such-program", "no-such-program")
        self.assert_refused("PRETEND_SPEED is not known; expected PRETEND_ and one of: ", "true", SPEED="1")
        self.assert_refused("has no libcudart.so.13; `ninja", "true", LIBRARIES=str(self.folder))

    def test_a_setting_that_is_none_is_reported_with_what_is_expected(self):
        for name, value, reported in (("SCHEDULE", "late", "expected async, sync or lazy"), ("GPUS", "two", "expected a whole number"),
                                  ("FAIL", "cudaMalloc", "expected FUNCTION:CALL:WHAT")):  # fmt: skip
            running = self.start_program(RUN, DDPRUN, *QUICK, env={"PRETEND_LIBRARIES": LIBRARIES, f"PRETEND_{name}": value})
            self.assertNotEqual(running.wait(SECONDS), 0, running.text())
            self.assertIn(reported, running.err())

    def test_workers_are_bound_to_the_cores_next_to_their_gpus(self):
        """In a mount namespace of the test's own, where the kernel's list of a GPU's neighbours is the test's."""
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
            self.skipTest("needs two cores, and to be root")
        gpu = "/sys/bus/pci/devices/0000:02:00.0"  # with its class, which Gloo reads
        script = (f"mount -t tmpfs none {pathlib.Path(gpu).parent} && mkdir {gpu} && echo {cores[1]},9999 >{gpu}/local_cpulist"
                  f" && echo 0x030200 >{gpu}/class")  # fmt: skip
        for words, bound in (("", f", bound to the cores next to its GPU: {cores[1]}"), (" launch.bind=off", "")):
            run = self.folder / f"run{len(words)}"
            command = " ".join([str(RUN), str(DDPRUN), *QUICK, "launch.workers=2", f"run.dir={run}"]) + words
            bare = self.start_program("unshare", "--mount", "sh", "-c", f"{script} && exec {command}",
                                      env={"PRETEND_LIBRARIES": LIBRARIES, "PRETEND_GPUS": "2"})  # fmt: skip
            self.assertEqual(bare.wait(SECONDS), 0, bare.text())
            firsts = [(run / f"logs/rank_{rank}.log").read_text().splitlines()[0] for rank in (0, 1)]
            self.assertRegex(firsts[0], r", process \d+$")
            self.assertRegex(firsts[1], rf", process \d+{bound}$")

    def test_another_torch_is_refused_by_name(self):
        python = self.folder / "python3"
        python.write_text("#!/bin/sh\necho 2.10.0\n")
        python.chmod(0o755)
        self.assert_refused(f"{python} has torch 2.10.0, and the pretend GPUs were built for ", str(python))

    def test_a_program_that_asks_for_no_gpu_is_reported_so(self):
        self.assertIn("has asked for no GPU", self.launch(sys.executable, "-c", "").err())
        self.assertNotIn("has asked for no GPU", self.launch(DDPRUN, "check", *QUICK).err())

    def test_a_function_that_is_not_pretended_is_named(self):
        code = "import ctypes; ctypes.CDLL('libcudart.so.13').cudaDeviceGetLimit(); print('continued')"
        running = self.launch(sys.executable, "-c", code)
        self.assertIn("not pretended: cudaDeviceGetLimit", running.err())
        self.assertIn("continued", running.out())
        self.assertNotIn("continued", self.launch(sys.executable, "-c", code, code=-6, STRICT="1").out())

    def test_a_run_says_that_its_gpus_are_pretended(self):
        running = self.launch(DDPRUN, *QUICK, "run.dir=run", GPUS="1")
        self.assertIn("GPUs of this run are pretended", "".join(running.err().splitlines(keepends=True)[:3]))
        run = self.folder / "run"
        self.assertTrue(summary(run)["pretended_gpus"])
        self.assertTrue(json.loads((run / "environment.json").read_text())["pretended_gpus"])
        self.assertEqual(summary(run)["ranks"][0]["device"], "cuda:0, Pretend GPU, 2 GiB")
        self.ddprun("report", run)
        self.assertIn("GPUs of this run were pretended", (run / "report.html").read_text())

    def test_signals_save_a_run_though_threads_of_the_driver_let_them_through(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            with self.subTest(signal=number.name):
                gate = Gate(self, 2)
                env = {"PRETEND_LIBRARIES": LIBRARIES, "PRETEND_GPUS": "1", **gate.env}
                running = self.start_program(RUN, DDPRUN, *QUICK, "trainer.max_steps=40", f"run.dir={number.name}", env=env)
                gate.wait(running)
                self.assertTrue([mask for mask in self.masks(running.pid) if not mask >> (number - 1) & 1])
                running.send(number)
                self.wait_until(lambda: "saving a checkpoint" in running.err(), "the launcher to hear it", running)
                gate.open()
                self.assertEqual(running.wait(SECONDS), 75, running.text())
                self.assertEqual(summary(self.folder / number.name)["status"], "preempted")

    def masks(self, pid):
        """What each of its threads blocks."""
        status = [(task / "status").read_text() for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
        return [int(re.search(r"^SigBlk:\s*(\w+)", text, re.MULTILINE)[1], 16) for text in status]

    def test_a_run_without_them_says_nothing_of_them(self):
        self.ddprun(*QUICK, "launch.device=cpu", "run.dir=run")
        self.assertNotIn("pretended_gpus", summary(self.folder / "run"))


if __name__ == "__main__":
    unittest.main()

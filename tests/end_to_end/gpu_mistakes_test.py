# SPDX-License-Identifier: MIT
"""GPUs that cannot be used: pretend ones (tests/pretend_gpu), whose driver says what a launcher asks for."""

import os
import pathlib
import shutil
import subprocess
import unittest

from command import DDPRUN, SMALL, CommandTest
from partial_clone import PartialClone

RUN = pathlib.Path(__file__).resolve().parents[1] / "pretend_gpu/run"
QUICK = [word for word in SMALL if not word.startswith("launch.device")] + ["model=mlp", "trainer.max_steps=2"]

# (what the pretend driver does, words, what is said before anything starts)
REFUSALS = [
    ({"PRETEND_DRIVER": "12040"}, [], ["CUDA 12.4", "CUDA 13.0", "driver 580 or newer", "launch.device=cpu"]),
    ({"PRETEND_CAPABILITY": "70"}, [], ["GPU 0 (Pretend GPU) has compute capability 7.0"]),
    ({"PRETEND_GPUS": "2"}, ["launch.workers=3"], ["3 workers for 2 GPUs"]),
    ({"PRETEND_FAIL": "cuInit:1:802"}, ["launch.device=cuda"], ["system not yet initialized"]),
]


class GpuMistakes(CommandTest):
    def environment(self, changes=None):
        return super().environment({"PRETEND_LIBRARIES": os.environ["PRETEND_LIBRARIES"], "PRETEND_GPUS": "1"} | (changes or {}))

    def start_program(self, *command, **options):
        return super().start_program(RUN, *command, **options)

    def test_gpus_that_cannot_be_used_are_refused_with_the_reason(self):
        for driver, words, texts in REFUSALS:
            with self.subTest(driver):
                message = self.assert_refused(*QUICK, *words, env=driver)
                for text in texts:
                    self.assertIn(text, message)

    def test_the_cpu_is_there_all_the_same(self):
        self.ddprun(*QUICK, "launch.device=cpu", env={"PRETEND_DRIVER": "12040"})
        running = self.ddprun(*QUICK, "run.dir=run", env={"PRETEND_FAIL": "cuInit:1:802"})
        self.assertIn("so this run is on the CPU: system not yet initialized", running.err())

    def test_a_backend_that_is_not_built_is_built_before_anything_starts(self):
        clone = PartialClone(self.folder / "clone")
        clone.put("models/mlp", "datasets/digits", "optimizers/sgd", "loggers/console", "loggers/csv", "loggers/jsonl")
        (clone.folder / "broken").touch()
        running = self.start_program(clone.program, *QUICK, env={"DDPRUN_ON_DEMAND": ""})
        self.assertEqual(running.wait(), 2, running.text())
        self.assertIn("backend cuda is not built, and needed here: the lines above say why", running.err())
        self.assertEqual((clone.calls(), (self.folder / "outputs").exists()), ([{"lib/ddprun/backends/cuda.so"}], False))

    def test_gpus_that_cuda_itself_cannot_use_are_refused_in_its_words(self):
        running = self.ddprun(*QUICK, "run.dir=run", env={"PRETEND_FAIL": "cudaGetDeviceCount:1:3"}, code=2)
        self.assertIn("launch.device: CUDA cannot use the GPUs: ", running.err())
        self.assertNotIn("Exception raised from", running.err())

    def test_a_missing_nccl_library_is_named(self):
        program = self.program_with_backend_for("libnccl.so.99")
        running = self.start_program(program, *QUICK, "run.dir=run")
        self.assertEqual(running.wait(), 2, running.text())
        self.assertRegex(running.err(), r"launch.device: .*libnccl\.so\.99.*LibTorch")
        (program.parents[1] / "lib/ddprun/backends/cuda.so").unlink()
        running = self.start_program(program, *QUICK, "run.dir=other")
        self.assertEqual(running.wait(), 2, running.text())
        self.assertIn("without CUDA", running.err())

    def program_with_backend_for(self, library):
        """A copy of the program whose GPU backend needs a library that is nowhere: this machine may have an NCCL of its own."""
        place = self.folder / "copy"
        (place / "bin").mkdir(parents=True)
        shutil.copy2(DDPRUN, place / "bin/ddprun")
        (place / "share/ddprun").mkdir(parents=True)
        (place / "lib/ddprun/backends").mkdir(parents=True)
        for folder in ("lib", "lib/ddprun", "share", "share/ddprun"):
            for entry in (DDPRUN.parents[1] / folder).iterdir():
                if entry.name not in ("ddprun", "backends", "on_demand"):  # the last: it is no clone's build
                    os.symlink(entry, place / entry.relative_to(DDPRUN.parents[1]))
        (place / "empty.cpp").write_text("")
        compiler = os.environ.get("CXX", "c++")
        for words in (["-Wl,-soname," + library, "-o", library],
                      ["-Wl,--no-as-needed", "-L.", f"-l:{library}", "-o", "lib/ddprun/backends/cuda.so"]):
            subprocess.run([compiler, "-shared", "-fPIC", "empty.cpp", *words], cwd=place, check=True)
        (place / library).unlink()
        return place / "bin/ddprun"


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The wheel of this build, as tools/package makes it: what is in it, and what it does once pip has installed it beside
this build's torch, in an environment that has nothing else."""

import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
BUILD = pathlib.Path(os.environ["DDPRUN"]).resolve().parents[1]
CACHE = dict(re.findall(r"^(\w+):\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE))
TORCH = pathlib.Path(CACHE["DDPRUN_TORCH_DIR"])
MOST_BYTES = 30_000_000
NIGHTLY = os.environ.get("DDPRUN_NIGHTLY") == "1"


def run(*command, folder=None, expect=0, **environment):
    """What the command prints; it has no environment but a PATH, in which there is a compiler and nothing of ours."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != expect:
        raise AssertionError(f"{command} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def files_below(folder):
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if not file.is_dir() and "__pycache__" not in file.parts}


def make_wheel():
    made = subprocess.run([CHECKOUT / "cmake/wheel/make_wheel", BUILD, SCRATCH / "wheels"], stdout=subprocess.PIPE, text=True)
    if made.returncode == 77:
        print("skipped: the tools that make wheels cannot be fetched")
        sys.exit(77)
    if made.returncode:
        sys.exit("the wheel cannot be made")
    return pathlib.Path(made.stdout.strip())


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wheel = make_wheel()
        with zipfile.ZipFile(cls.wheel) as opened:
            cls.names = opened.namelist()
            cls.bytes = {name: opened.read(name) for name in cls.names}

    def text(self, pattern):
        (name,) = (name for name in self.names if re.fullmatch(pattern, name))
        return self.bytes[name].decode()

    def test_is_for_any_python_and_linux_and_for_the_torch_of_the_build(self):
        torch = re.search(r"^__version__ = '(\d+\.\d+)", (TORCH / "version.py").read_text(), re.MULTILINE)[1]
        name = rf"^ddprun-[0-9.]+\+torch{re.escape(torch)}-py3-none-manylinux_2_\d+_{platform.machine()}\.whl$"
        self.assertRegex(self.wheel.name, name)
        self.assertLess(self.wheel.stat().st_size, MOST_BYTES)
        metadata = self.text(r"ddprun-.*dist-info/METADATA")
        for needed in (f"torch=={torch}.*", "numpy", "safetensors"):
            self.assertIn(f"\nRequires-Dist: {needed}\n", metadata)

    def test_names_nothing_of_the_machine_it_was_made_on(self):
        for name, content in self.bytes.items():
            for place in (BUILD, f"{CHECKOUT}/", TORCH.parent):
                begins_with_it = rb"(?<![\w./-])" + re.escape(str(place).encode())  # not sdk/src/, where the clone is /src
                self.assertIsNone(re.search(begins_with_it, content), f"{name} names {place}")

    def test_brings_its_libraries_with_their_terms_and_none_of_torch(self):
        brought = {re.sub(r"-[0-9a-f]{8}\.", ".", name.split("/")[1]) for name in self.names if name.startswith("ddprun.libs/")}
        self.assertTrue(any(name.startswith("libcurl.") for name in brought), brought)
        for name in brought:
            self.assertNotRegex(name, r"^lib(torch|c10|gomp|cudart|nccl|stdc\+\+)")
        terms = [name for name in self.names if re.search(r"dist-info/licenses/bundled/libcurl", name)]
        self.assertEqual(len(terms), 1, terms)

    def test_works_beside_torch_and_goes_without_a_trace(self):
        run(sys.executable, "-m", "venv", SCRATCH / "v")
        (site,) = (SCRATCH / "v").glob("lib/python3*/site-packages")
        for package in TORCH.parent.iterdir():
            if not (site / package.name).exists():
                (site / package.name).symlink_to(package)
        before = files_below(SCRATCH / "v")
        pip = (SCRATCH / "v/bin/pip", "--disable-pip-version-check")
        run(*pip, "install", "--no-index", self.wheel)
        run(*pip, "check")
        self.runs(SCRATCH / "v/bin", site)
        if NIGHTLY:
            self.builds(SCRATCH / "v/bin")
        run(*pip, "uninstall", "--yes", "ddprun")
        self.assertEqual(files_below(SCRATCH / "v"), before)
        self.assertFalse((site / "ddprun").exists())

    def runs(self, commands, site):
        WORK.mkdir()
        run(commands / "ddprun", "experiments/digits.yaml", "trainer.max_steps=5", "launch.device=cpu", folder=WORK)
        self.assertIn('"status": "completed"', (WORK / "outputs/digits/latest/summary.json").read_text())
        libraries = [site / "ddprun/bin/ddprun", *site.glob("ddprun/lib/**/*.so")]
        found = run("ldd", *libraries)
        missing = re.findall(r"(\S+) => not found", found)
        self.assertEqual([name for name in missing if not re.match(r"libcuda\.so|libnvidia-ml", name)], [])
        for openmp in re.findall(r"libgomp\S* => (\S+)", found):  # torch's own: two in a process have two pools of threads
            self.assertEqual(pathlib.Path(openmp).resolve().parent, (TORCH / "lib").resolve())
        self.assertTrue((commands / "../share/man/man1/ddprun-sweep.1.gz").exists())
        completion = commands / "../share/bash-completion/completions/ddprun"
        self.assertTrue(run("bash", completion, "ddprun experiments/digits.yaml optimizer.l", folder=WORK).startswith("optimizer.lr="))
        for tool in ("convert-weights", "export-model", "follow", "sweep"):
            self.assertIn(f"usage: ddprun-{tool}", run(commands / f"ddprun-{tool}", "--help", folder=WORK))
        self.assertIn("usage: ddprun-follow", run("/usr/bin/python3", commands / "ddprun-follow", "--help", folder=WORK))

    def builds(self, commands):
        run(commands / "ddprun-new-plugin", "optimizer", "my_own", folder=WORK)
        arguments = ("check", "--build", "my_own/my_own.cpp", "experiments/digits.yaml", "optimizer=my_own")
        run(commands / "ddprun", *arguments, folder=WORK, HOME=str(WORK))
        prefix = run(commands / "python", "-m", "ddprun", "--cmake-dir").strip()
        self.assertEqual(run(commands / "python", "-c", "import ddprun; print(ddprun.cmake_prefix())").strip(), prefix)
        arguments = ("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={CACHE['CMAKE_MAKE_PROGRAM']}", f"-DCMAKE_PREFIX_PATH={prefix}")
        run(CACHE["CMAKE_COMMAND"], "-S", HERE / "consumer", "-B", WORK / "consumer", *arguments)


if __name__ == "__main__":
    if CACHE.get("DDPRUN_SANITIZE"):
        print("skipped: the build has sanitizers")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as scratch:
        SCRATCH = pathlib.Path(scratch)
        WORK = SCRATCH / "empty"
        unittest.main()

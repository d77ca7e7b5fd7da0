#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The wheel's command ddprun, in a made-up site-packages whose program is a script: it is the program in everything, and says
what is missing where the dynamic linker would not."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "sdk/python/ddprun"
PROGRAM = """#!/bin/sh
printf '[%s]' "$@"
echo " certificates=$SSL_CERT_FILE"
grep SigIgn /proc/self/status
exit 75
"""
START = "from ddprun import _start; _start.ddprun()"
FITS = "pip install 'torch==2.11.*'"
# {what is wrong: (files that are others, or gone, words of the one line that says so)}; {site} is where packages lie.
REFUSALS = {
    **{f"torch {other}": ({"torch/version.py": f"__version__ = '{other}'\n"},
                          ["made for torch 2.11", f"{{site}}/torch is torch {other}", f"{FITS}\n", sys.executable])
       for other in ("2.15.0", "2.1.2", "2.110.0")},
    "what is made for torch": ({"torch/version.py": "__version__ = '2.14.0'\n", "torchvision/__init__.py": ""}, [f"{FITS} torchvision\n"]),
    "more of it": ({"torch/version.py": "__version__ = '2.14.0'\n", "torchvision/__init__.py": "", "torchaudio/__init__.py": ""},
                   [f"{FITS} torchvision torchaudio\n"]),
    "no torch": ({"torch": None}, ["no torch in {site}", "--ignore-installed 'torch==2.11.*'\n"]),
    "no torch, but more": ({"torch": None, "torchvision/__init__.py": ""}, ["--ignore-installed 'torch==2.11.*' torchvision\n"]),
    "half a torch": ({"torch/lib/libtorch_cpu.so": None},
                     ["{site}/torch/lib/libtorch_cpu.so is missing", "--force-reinstall 'torch==2.11.*'"]),
    "half an installation": ({"ddprun.libs/libcurl-02fbea31.so.4.8.0": None},
                             ["not whole", "ddprun.libs/libcurl-02fbea31.so.4.8.0 is missing", "--force-reinstall --no-deps"]),
    "no program": ({"ddprun/bin/ddprun": "#!/bin/sh\n"}, ["{site}/ddprun/bin/ddprun cannot be started: Permission denied"]),
}  # fmt: skip


class WheelStart(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.site = pathlib.Path(scratch.name, "site packages")
        shutil.copytree(SOURCES, self.site / "ddprun", ignore=shutil.ignore_patterns("__pycache__"))
        self.write("ddprun/bin/ddprun", PROGRAM).chmod(0o755)
        self.write("ddprun.libs/libcurl-02fbea31.so.4.8.0")
        self.write("ddprun-0.2.0.dist-info/RECORD", "ddprun/bin/ddprun,sha256=x,1\nddprun.libs/libcurl-02fbea31.so.4.8.0,,\n")
        self.write("ddprun-0.2.0.dist-info/METADATA", "Name: ddprun\nRequires-Dist: torch==2.11.*\n\nA text\n")
        self.write("torch/version.py", "from typing import Optional\n__version__ = '2.11.1+cpu'\n")
        self.write("torch/lib/libtorch_cpu.so")
        self.write("torch/lib/libc10.so")

    def write(self, name, text=""):
        file = self.site / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def start(self, *arguments, code=START, **environment):
        return subprocess.run([sys.executable, "-B", "-c", code, *arguments], env={"PYTHONPATH": str(self.site), **environment},
                              capture_output=True, text=True)  # fmt: skip

    def test_is_the_program(self):
        done = self.start("two words", "", "--a=$b")
        self.assertEqual((done.returncode, done.stderr), (75, ""))
        self.assertTrue(done.stdout.startswith("[two words][][--a=$b]"), done.stdout)

    def test_ignores_no_signal_that_python_does(self):
        ours = pathlib.Path("/proc/self/status").read_text()
        (ours,) = [int(line.split()[1], 16) for line in ours.splitlines() if line.startswith("SigIgn")]
        python = 1 << 12 | 1 << 24  # SIGPIPE and SIGXFSZ
        self.assertIn(f"SigIgn:\t{ours & ~python:016x}", self.start().stdout)

    def test_works_where_pip_has_written_nothing(self):
        shutil.rmtree(self.site / "ddprun-0.2.0.dist-info")
        self.assertEqual(self.start().returncode, 75)

    def test_what_cannot_work_is_refused_in_one_line_that_mends_it(self):
        whole = self.site
        for what, (files, texts) in REFUSALS.items():
            with self.subTest(what):
                self.site = whole.with_name(what)
                shutil.copytree(whole, self.site)
                for name, text in files.items():
                    place = self.site / name
                    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
                    if text is not None:
                        self.write(name, text)
                done = self.start("experiments/digits.yaml")
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                for text in texts:
                    self.assertIn(text.replace("{site}", str(self.site)), done.stderr)

    def test_what_is_made_for_another_torch_is_warned_of_with_that_line(self):
        def warning(version, requires):
            for old in self.site.glob("torchvision-*"):
                shutil.rmtree(old)
            self.write("torchvision/__init__.py")
            self.write(f"torchvision-{version}.dist-info/METADATA", f"Name: torchvision\nRequires-Dist: numpy\nRequires-Dist: {requires}\n")
            done = self.start("list")
            self.assertEqual(done.returncode, 75)  # it is the program all the same
            return done.stderr

        reported = warning("0.29.2", "torch>=2.14.0")
        self.assertTrue(reported.startswith("ddprun: warning: torchvision 0.29.2 requires torch>=2.14.0, and torch here is 2.11.1+cpu"), reported)
        self.assertTrue(reported.endswith("-m pip install 'torch==2.11.*' torchvision\n") and reported.count("\n") == 1, reported)
        for other in ("torch==2.12.0", "torch (==2.1.0)", "torch>=2.3,<2.10", "torch == 2.110.0"):
            self.assertIn("requires torch", warning("0.25.0", other), other)
        for fitting in ("torch==2.11.0", "torch (>=2.3)", "torch>=2.11.0,<3", "torch", "torch-tensorrt==2.12.0", "torch>=2.9 ; extra == 'x'"):
            self.assertEqual(warning("0.26.0", fitting), "", fitting)

    def test_pip_finds_versions_that_fit_for_that_line(self):
        """With packages that are nothing but their requirements, as on PyPI: torchvision names its torch."""
        index = self.site.parent / "index"
        index.mkdir()
        for version, torch, sign in (("0.26.0", "2.11.0", "=="), ("0.29.0", "2.14.0", ">=")):
            self.make_wheel(index, "torch", torch)
            self.make_wheel(index, "torchvision", version, f"torch{sign}{torch}")
        venv = self.site.parent / "venv"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip = [venv / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--find-links", index]
        for words in (["torchvision"], ["torch==2.11.*", "torchvision"]):
            subprocess.run([*pip, *words], check=True)
        listed = subprocess.run([venv / "bin/python", "-m", "pip", "freeze"], check=True, capture_output=True, text=True).stdout
        self.assertIn("torch==2.11.0", listed)
        self.assertIn("torchvision==0.26.0", listed)

    def make_wheel(self, folder, name, version, requires=""):
        info = f"{name}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + (f"Requires-Dist: {requires}\n" if requires else "")
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", metadata)
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")

    def test_export_model_refuses_another_torch_too(self):
        self.write("torch/version.py", "__version__ = '2.14.0'\n")
        done = self.start(code="from ddprun import _start; _start.export_model()")
        self.assertEqual(done.returncode, 2)
        self.assertIn("made for torch 2.11", done.stderr)

    def test_finds_certificates_of_other_distributions(self):
        there = self.write("certifi/cacert.pem")
        elsewhere = f"from ddprun import _start; _start.CERTIFICATES = ('/none.pem', '{there}'); _start.ddprun()"
        self.assertIn(f"certificates={there}\n", self.start(code=elsewhere).stdout)
        self.assertIn("certificates=mine\n", self.start(code=elsewhere, SSL_CERT_FILE="mine").stdout)
        debian = f"from ddprun import _start; _start.CERTIFICATES = ('{there}', '{there}'); _start.ddprun()"
        self.assertIn("certificates=\n", self.start(code=debian).stdout)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""What the linker and the compiler have made of the program, its libraries and its plugins."""

import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = pathlib.Path(os.environ["DDPRUN"]).resolve()
BUILD = PROGRAM.parent.parent
LOADED = BUILD / "lib/ddprun/program.so"  # by the program


def binaries():
    plugins = sorted((BUILD / "lib/ddprun/plugins").rglob("*.so"))
    libraries = [BUILD / f"lib/libddprun_{name}.so" for name in ("sdk", "download")]
    return [PROGRAM, LOADED, *libraries, *plugins]


def readelf(file, what):
    return subprocess.run(["readelf", "--wide", what, file], capture_output=True, text=True, check=True).stdout


def needed(file):
    return [line.split("[")[1].rstrip("]") for line in readelf(file, "--dynamic").splitlines() if "(NEEDED)" in line]


class Binaries(unittest.TestCase):
    def test_the_program_is_loaded_without_libtorch(self):
        self.assertEqual([name for name in needed(PROGRAM) if "torch" in name or "c10" in name or "ddprun" in name], [])
        self.assertIn("libtorch_cpu.so", needed(LOADED))

    def test_no_library_is_looked_for_in_the_current_folder(self):
        for file in binaries():
            for line in readelf(file, "--dynamic").splitlines():
                if "(RUNPATH)" not in line and "(RPATH)" not in line:
                    continue
                path = line.partition("[")[2].rstrip("]")
                for folder in path.split(":"):
                    with self.subTest(file=file.name, path=path):
                        self.assertTrue(folder.startswith(("/", "$ORIGIN")), "the loader takes it for the current folder")

    def test_what_lies_in_the_current_folder_is_not_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in [*needed(PROGRAM), *needed(LOADED)]:
                (pathlib.Path(folder) / name).write_text("no library")
            done = subprocess.run([PROGRAM, "keys"], cwd=folder, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_they_are_hardened(self):
        if "san_init" in readelf(PROGRAM, "--symbols"):
            self.skipTest("a sanitizer's build")
        for file in binaries():
            with self.subTest(file=file.name):
                self.assertIn("GNU_RELRO", readelf(file, "--segments"))
                self.assertIn("BIND_NOW", readelf(file, "--dynamic"))
        for file in binaries()[:3]:
            symbols = readelf(file, "--dyn-syms")
            self.assertIn("__stack_chk_fail", symbols, file)
        self.assertIn("_chk@", readelf(PROGRAM, "--dyn-syms"), "no call is checked by FORTIFY")
        self.assertIn("DYN", readelf(PROGRAM, "--file-header").partition("Type:")[2].splitlines()[0])


if __name__ == "__main__":
    unittest.main()

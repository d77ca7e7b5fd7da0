# SPDX-License-Identifier: MIT
"""What a plugin sees compiled does not change within a minor version of the SDK, by the rules of docs/plugins.md, "the ABI".

sdk/interface.txt has the version, and a digest of each header without its comments. `interface_test.py --accept` writes it for a
new minor version, as often as is needed until CHANGELOG.md calls that no longer unreleased.
"""

import hashlib
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

CLONE = pathlib.Path(__file__).resolve().parents[2]
TOKEN = re.compile(r'//.*|#include.*|#pragma once|"(?:[^"\\]|\\.)*"|\w+|\S')


def version_of(clone):
    return re.search(r"^project\(ddprun VERSION ([0-9.]+)", (clone / "CMakeLists.txt").read_text(), re.MULTILINE)[1]


def digest(text):
    """Of the words of a header: comments, spaces and includes are none."""
    words = [word for word in TOKEN.findall(text) if not word.startswith(("//", "#include", "#pragma once"))]
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]


def digests(headers):
    ours = (path for path in sorted(headers.glob("*.h*")) if path.name != "testing.h")
    return {path.name.removesuffix(".in"): digest(path.read_text()) for path in ours}


def read_record(clone):
    lines = [line.split() for line in (clone / "sdk/interface.txt").read_text().splitlines() if line and line[0] != "#"]
    return lines[0][1], {name: value for name, value in lines[1:]}


def write_record(clone):
    rows = "".join(f"{name} {value}\n" for name, value in digests(clone / "sdk/include/ddprun").items())
    (clone / "sdk/interface.txt").write_text(
        "# What plugins were promised: tests/sdk/interface_test.py --accept writes it, as long as the version is unreleased.\n"
        f"version {version_of(clone)}\n{rows}")


def may_change(clone, promised, version):
    """A new minor version, until it is released."""
    begun = version.endswith(".0") and f"\n## {version}, unreleased" in (clone / "CHANGELOG.md").read_text()
    return begun or promised.split(".")[:2] != version.split(".")[:2]


def problem(clone):
    """What is to be done, as a text; empty where nothing is."""
    (promised, before), version = read_record(clone), version_of(clone)
    now = digests(clone / "sdk/include/ddprun")
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    major, minor = promised.split(".")[:2]
    if not changed and version.startswith(f"{major}.{minor}."):
        return ""
    if may_change(clone, promised, version):
        return f"sdk/interface.txt is not that of ddprun {version}: tests/sdk/interface_test.py --accept writes it"
    return (f"the declarations of {', '.join(changed)} in sdk/include/ddprun are not those of ddprun {promised}, with which plugins "
            f"have been built: undo that, or raise the version in CMakeLists.txt to {major}.{int(minor) + 1}.0, so that they are "
            "built anew, begin it in CHANGELOG.md, and call tests/sdk/interface_test.py --accept")


def accept(clone):
    found = problem(clone)
    if found and not may_change(clone, read_record(clone)[0], version_of(clone)):
        sys.exit(found)
    write_record(clone)


class Interface(unittest.TestCase):
    def test_it_is_what_the_version_promises(self):
        self.assertEqual(problem(CLONE), "")

    def test_a_digest_is_that_of_the_words(self):
        text = 'struct A {\n  int a = 0;  // "one"\n  const char* b = "//two";\n};\n'
        same = '// New.\n#include <x>\nstruct A { int a=0;\n const char*b = "//two"; };'
        self.assertEqual(digest(text), digest(same))
        for old, new in {"int": "long", "= 0": "= 1", "//two": "//2", "};": " virtual void c(); };"}.items():
            self.assertNotEqual(digest(text), digest(text.replace(old, new)), new)




class MadeClone(unittest.TestCase):
    """Of one header."""

    def setUp(self):
        self.clone = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-interface-"))
        self.addCleanup(shutil.rmtree, self.clone, ignore_errors=True)
        (self.clone / "sdk/include/ddprun").mkdir(parents=True)
        self.header = self.clone / "sdk/include/ddprun/model.h"
        self.header.write_text("struct Model { int a; };\n")
        self.begin("0.4.0", released=True)
        write_record(self.clone)

    def begin(self, version, released=False):
        (self.clone / "CMakeLists.txt").write_text(f"# ddprun\nproject(ddprun VERSION {version} LANGUAGES CXX)\n")
        (self.clone / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version}{'' if released else ', unreleased'}\n")

    def change(self):
        self.header.write_text("struct Model { int a, b; };\n")

    def test_a_released_version_keeps_its_declarations(self):
        self.assertEqual(problem(self.clone), "")
        self.change()
        self.assertIn("the declarations of model.h in sdk/include/ddprun are not those of ddprun 0.4.0", problem(self.clone))
        self.begin("0.4.1")
        self.assertIn("undo that, or raise the version in CMakeLists.txt to 0.5.0", problem(self.clone))
        with self.assertRaises(SystemExit):
            accept(self.clone)
        self.header.unlink()
        self.assertIn("model.h", problem(self.clone))

    def test_a_patch_version_takes_over_what_its_minor_version_promised(self):
        self.begin("0.4.1")
        self.header.write_text("// The network.\nstruct Model {\n  int a;\n};\n")
        self.assertEqual(problem(self.clone), "")

    def test_a_new_minor_version_is_accepted_until_its_release(self):
        self.begin("0.5.0")
        for _ in range(2):
            self.assertIn("--accept", problem(self.clone))
            accept(self.clone)
            self.assertEqual(problem(self.clone), "")
            self.change()
        accept(self.clone)
        self.begin("0.5.0", released=True)
        self.header.write_text("struct Model {};\n")
        self.assertIn("0.6.0", problem(self.clone))


if __name__ == "__main__":
    accept(CLONE) if sys.argv[1:] == ["--accept"] else unittest.main()

# SPDX-License-Identifier: MIT
"""Plugins that were built with an older SDK: what the program does with them is what docs/plugins.md says under "the ABI".

sdk_<version>/ holds the headers of a released version as they were, version.h too. A released version gets such a folder and a line
in RELEASED when the next one is begun; the oldest may then go.
"""

import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "end_to_end"), str(HERE.parents[1] / "tools/dev/reference")]
from command import DDPRUN, SMALL, CommandTest  # noqa: E402
from documented import with_version  # noqa: E402

SDK = HERE.parents[1] / "sdk"
PREFIX = DDPRUN.parents[1]
PROGRAM = tuple(map(int, subprocess.check_output([DDPRUN, "--version"], text=True).split()[-1].split(".")))
RELEASED = {"0.1.0": "refused"}  # or "works"


def outcome(version):
    """The rules of docs/plugins.md."""
    major, minor, _ = map(int, version.split("."))
    same = (major, minor) == PROGRAM[:2] if major == 0 else major == PROGRAM[0] and minor <= PROGRAM[1]
    return "works" if same else "refused"


def build(kind, headers, plugin):
    """As `ddprun --build` compiles, with these headers and without the library, as if linked with that of their time."""
    words = [word.replace("{prefix}", str(PREFIX)) for word in (PREFIX / "share/ddprun/plugin_command").read_text().splitlines()]
    ours = {f"-I{PREFIX}/include", f"-I{SDK}/include", "-lddprun_sdk", "-Wl,-z,defs"}
    words = [word for word in words if word not in ours]
    words[words.index("{source}")] = HERE / f"previous/older_{kind}.cpp"
    subprocess.run([*words, "-O0", f"-I{headers}", "-o", plugin], check=True)


class PreviousSdk(CommandTest):
    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-previous-")).resolve()
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.headers = {path.name.removeprefix("sdk_"): path for path in HERE.glob("sdk_*")}
        cls.next_patch = f"{PROGRAM[0]}.{PROGRAM[1]}.{PROGRAM[2] + 7}"
        cls.headers[cls.next_patch] = cls.headers_of_another_patch()
        wanted = [(kind, version) for version in cls.headers for kind in ("model", "logger")]
        wanted.remove(("model", cls.next_patch))  # a logger serves: the headers are those of today
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda both: build(both[0], cls.headers[both[1]], cls.plugin(*both)), wanted))

    @classmethod
    def headers_of_another_patch(cls):
        folder = cls.place / "next_patch"
        shutil.copytree(SDK / "include", folder)
        text = (folder / "ddprun/version.h.in").read_text()
        (folder / "ddprun/version.h").write_text(with_version(text, cls.next_patch))
        return folder

    @classmethod
    def plugin(cls, kind, version):
        folder = cls.place / version
        folder.mkdir(exist_ok=True)
        return folder / f"older_{kind}.so"

    def environment(self, changes=None):
        return super().environment({"OLDER_PLUGIN_RAN": str(self.folder / "ran")} | (changes or {}))

    def ran(self):
        return (self.folder / "ran").exists()

    def versions(self, expected):
        return [version for version in RELEASED if RELEASED[version] == expected]

    def test_each_released_version_has_the_outcome_that_the_rules_say(self):
        self.assertEqual(RELEASED, {version: outcome(version) for version in self.headers if version != self.next_patch})

    def assert_refused_by_all(self, kind, version):
        plugin = self.plugin(kind, version)
        want = f"built with ddprun SDK {version}, but this ddprun with ddprun SDK {'.'.join(map(str, PROGRAM))}; rebuild the plugin"
        named = {"DDPRUN_PLUGIN_PATH": str(plugin.parent)}
        words = ["model.plugin=older_model"] if kind == "model" else ["+loggers=older_logger"]
        listed = self.ddprun("plugins", env=named).out()
        self.assertIn(f"These files cannot be used:\n  {plugin.parent}", listed)
        looked_at = self.ddprun("plugins", "check", plugin, code=1).out()
        checked = self.assert_refused("check", *SMALL, *words, env=named)
        trained = self.assert_refused(*SMALL, *words, env=named)
        for text in (listed, looked_at, checked, trained):
            self.assertIn(want, re.sub(r"\s+", " ", text))
        self.assertEqual(checked.count("\n"), 1, "more than one message")
        self.assertFalse(self.ran(), "its code has run")

    def test_what_does_not_fit_is_refused_before_its_code_runs(self):
        for version in self.versions("refused"):
            for kind in ("model", "logger"):
                with self.subTest(kind=kind, version=version):
                    self.assert_refused_by_all(kind, version)

    def test_what_fits_trains(self):
        for version in [*self.versions("works"), self.next_patch]:
            with self.subTest(version=version):
                self.assertEqual(outcome(version), "works")
                self.assert_works(version)

    def assert_works(self, version):
        logger, model = (self.plugin(kind, version) for kind in ("logger", "model"))
        self.assertIn("1 plugin checked, 0 failed", self.ddprun("plugins", "check", logger).out())
        self.ddprun(*SMALL, "trainer.max_epochs=1", f"run.dir={version}", f"+loggers={logger}",
                    f"model.plugin={model if model.exists() else 'mlp'}")
        wrote = (self.folder / version / "older.txt").read_text().split()
        self.assertEqual(wrote[0], "dear")
        self.assertIn("val/accuracy", wrote)
        if model.exists():
            self.assertIn("val/older", wrote)
        self.assertTrue(self.ran())


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""ddprun --build: a plugin of one source file, compiled where it is needed.

The plugin is a logger: its header is read in seconds, a model's takes LibTorch's.
"""

import pathlib
import shutil
import signal
import tempfile
import unittest

from command import SMALL, CommandTest

HEADER = '#pragma once\n#define DIARY_HELP "writes a page"\n'
SOURCE = """#include <ddprun/logger.h>

#include <fstream>

#include "help of mine.h"

namespace {

class Diary final : public ddprun::Logger {
 public:
  explicit Diary(ddprun::Options& options) : word_(options.get<std::string>("word", "dear", "how a page begins")) {}
  void start(const ddprun::RunStart& run) override { std::ofstream(run.run_dir / "diary.txt") << word_ << "\\n"; }

 private:
  std::string word_;
};

}  // namespace

DDPRUN_LOGGER(Diary, "diary", DIARY_HELP)
"""

OPTION = 'options.get<std::string>("word", "dear", "how a page begins")'
# {what is wrong: ([(part of the source, what stands in its place)], what is said)}
MISTAKES = {
    "it does not compile": ([("word_;", "wort_;")], r"diary.cpp does not compile:\n.*diary.cpp:11:\d+: error: "),
    "it does not link": ([("namespace {", "void nowhere();\nnamespace {"), ("override { std", "override { nowhere(); std")],
                         r"undefined reference to `nowhere\(\)'"),
    "it registers nothing": ([(SOURCE[SOURCE.index("DDPRUN_LOGGER"):], "")],
                             "diary.cpp compiles, but cannot be used: .*its source needs a line like DDPRUN_MODEL"),
    "its class is no plugin": ([("explicit Diary(ddprun::Options& options)", "explicit Diary(int)"), (OPTION, '"dear"')],
                               r"diary.cpp:20:\d+: +required from here\n.*constructed from a ddprun::Options&"),
}  # fmt: skip


class BuildPlugin(CommandTest):
    """What is built is kept for all tests; each has sources of its own, which lie at the same place."""

    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-build-"))
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)

    def setUp(self):
        super().setUp()
        self.source = self.place / "diary.cpp"
        self.source.write_text(SOURCE)
        (self.place / "help of mine.h").write_text(HEADER)

    def environment(self, changes=None):
        return super().environment({"XDG_CACHE_HOME": str(self.place / "cache")} | (changes or {}))

    def check(self, *words, code=0, env=None):
        return self.ddprun("check", "--build", self.source, *SMALL, "+loggers=diary", *words, code=code, env=env)

    def built(self):
        return sorted((self.place / "cache/ddprun/built").glob("*/*.so"))

    def test_a_run_uses_it_and_continues_with_it(self):
        self.ddprun("--build", self.source, *SMALL, "+loggers=diary", "model=mlp", "trainer.max_epochs=1", "run.dir=run")
        self.assertEqual((self.folder / "run/diary.txt").read_text(), "dear\n")
        self.ddprun("resume", "run", "trainer.max_epochs=2", "loggers[3].word=again")
        self.assertEqual((self.folder / "run/diary.txt").read_text(), "again\n")

    def test_a_run_carries_it(self):
        self.ddprun("--build", self.source, *SMALL, "+loggers=diary", "model=mlp", "trainer.max_epochs=1", "run.dir=run")
        self.assertEqual((self.folder / "run/plugins/diary.cpp").read_text(), SOURCE)
        (self.place / "cache").rename(self.place / "gone")
        try:
            self.ddprun("evaluate", "run")
            self.ddprun("resume", "run", "trainer.max_epochs=2", "loggers[3].word=again")
        finally:
            (self.place / "gone").rename(self.place / "cache")
        self.assertEqual((self.folder / "run/diary.txt").read_text(), "again\n")

    def test_a_crash_in_it_is_reported_once_with_its_line(self):
        self.source.write_text(SOURCE.replace("std::ofstream(", "*static_cast<volatile int*>(nullptr) = 1; std::ofstream("))
        line = 1 + SOURCE[: SOURCE.index("std::ofstream(")].count("\n")
        text = self.ddprun("--build", self.source, *SMALL, "+loggers=diary", "model=mlp", code=128 + signal.SIGSEGV).err()
        self.assertRegex(text, rf"Diary::start\(ddprun::RunStart const&\) at \S*diary.cpp:{line}\n")
        self.assertEqual(text.count("diary.cpp:"), 1, text)

    def test_it_is_compiled_again_only_where_it_has_changed(self):
        self.check()
        self.assertNotIn("building", self.check("loggers[3].word=other").err())
        before = self.built()
        (self.place / "help of mine.h").write_text(HEADER.replace("writes", "does write"))
        self.assertIn("building diary.cpp", self.check().err())
        self.assertEqual(len(set(self.built()) - set(before)), 1)
        (self.place / "help of mine.h").write_text(HEADER)
        self.assertNotIn("building", self.check().err())

    def test_two_processes_build_the_same_at_once(self):
        self.source.write_text(SOURCE.replace('"dear"', '"dearest"'))
        both = [self.start("check", "--build", self.source, *SMALL, "+loggers=diary") for _ in range(2)]
        for running in both:
            self.assertEqual(running.wait(), 0, running.text())
        self.assertEqual(list((self.place / "cache/ddprun/built").glob("ddprun-*")), [])

    def test_what_is_wrong_with_a_source_is_said_with_its_line(self):
        before = self.built()
        for what, (changes, text) in MISTAKES.items():
            with self.subTest(what):
                source = SOURCE
                for old, new in changes:
                    source = source.replace(old, new, 1)
                self.source.write_text(source)
                error = self.check(code=2).err()
                self.assertRegex(error, text)
                self.assertNotIn("In file included from", error)
        self.assertEqual(self.built(), before)

    def test_two_that_make_one_plugin_are_named(self):
        (self.place / "twin.cpp").write_text(SOURCE)
        text = self.check("--build", self.place / "twin.cpp", code=2).err()
        self.assertIn(f"--build {self.source} and --build {self.place}/twin.cpp both define the logger diary: ", text)
        self.check("--build", self.source)

    def test_a_file_or_a_compiler_that_is_not_there(self):
        (self.folder / "notes.txt").write_text("int a;\n")
        for name, problem in {"nix.cpp": "there is no such file", ".": "it is not a file",
                              "notes.txt": "a file whose name ends in .cpp, .cc or .cxx"}.items():
            self.assertIn(f"--build {name}: ", text := self.assert_refused("check", "--build", name, *SMALL))
            self.assertIn(problem, text)
        self.assertIn("there is no compiler nix++", self.check(code=2, env={"CXX": "nix++"}).err())
        self.assertIn("false prints nothing and ends with exit code 1", self.check(code=2, env={"CXX": "false"}).err())


if __name__ == "__main__":
    unittest.main()

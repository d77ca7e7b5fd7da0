# SPDX-License-Identifier: MIT
"""tests/quick.txt: the tests that it names are there, and each command of the program, each kind of plugin and each promise of the README has
an entry."""

import ast
import collections
import dataclasses
import functools
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALL = re.compile(r"^\s*ddprun_add_(python_)?test\((\S+)([^)]*)\)", re.MULTILINE)
SUITES = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\((\w+), (\w+)\)", re.MULTILINE)
PIECE = re.compile(r"(?:`[^`]*`|\([^)]*\)|[^.:;,]|[.:;,](?!\s|$))+[.:;,]?")
KINDS = ("shows", "command", "plugin", "README")


@dataclasses.dataclass
class Entry:
    test: str  # or "-" for what no test here shows
    parts: list[str]
    said: dict[str, list[str]]


def entries_of(text):
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if not line.startswith(" "):
            found.append(Entry(words[0], words[1:], {kind: [] for kind in KINDS}))
        elif found and words[0] in KINDS and len(words) > 1:
            found[-1].said[words[0]].append(" ".join(words[1:]))
        else:
            raise ValueError(f"tests/quick.txt:{number}: expected one of {', '.join(KINDS)}, and what: {line.strip()}")
    return found


def commands_in(source):
    """The names in kCommands."""
    table = source.partition("kCommands = ")[2].partition("\n});")[0]
    return set(re.findall(r'^\s*\{"([a-z-]+)",', table, re.MULTILINE))


def plugin_kinds(headers):
    """Those for which the SDK has a macro that registers one."""
    return {kind.lower() for text in headers for kind in re.findall(r"^#define DDPRUN_([A-Z]+)\(plugin_class,", text, re.MULTILINE)}


def pieces_of(page):
    """What has to be touched by passages: lines of commands, other blocks as a whole, and parts of sentences and rows."""
    found, block, code = [], [], None

    def end_block():
        text = " ".join(" ".join(block).split())
        whole = code is not None or (block and block[0].startswith("    "))
        block.clear()
        found.extend([text] if whole else PIECE.findall(text))

    for line in page.splitlines():
        row = line.startswith("|")
        if line.startswith("```"):
            end_block()
            code = None if code is not None else line[3:]
        elif code is None and (row or line.startswith("#") or not line.strip()):
            end_block()
            found.extend(PIECE.findall(line) if row else [])
        else:
            block.append(line)
            if code == "sh":
                end_block()
    end_block()
    return [piece.strip() for piece in found if re.search(r"\w", piece)]


def compared(pieces, passages):
    """What is wrong between the README and the passages, which may be "its begin [...] its end", a line for each."""
    text, begins = "", []
    for piece in pieces:
        begins.append(len(text))
        text += piece + " "
    found, touched = [], set()
    for passage in passages:
        ends = passage.split(" [...] ")
        wrong = [f"the README has {text.count(end)} times, instead of once: {end}" for end in ends if text.count(end) != 1]
        found += wrong
        if not wrong:
            first, last = text.index(ends[0]), text.index(ends[-1]) + len(ends[-1])
            touched |= {number for number, begin in enumerate(begins) if begin < last and first < begin + len(pieces[number])}
    return found + [f"the README's promise has no entry: {piece}" for number, piece in enumerate(pieces) if number not in touched]


def registered():
    """What CMake adds: {test: its Python file, or the sources of its program}."""
    found = {}
    for lists in ROOT.glob("tests/*/CMakeLists.txt"):
        for python, name, words in CALL.findall(lists.read_text()):
            files = [lists.parent / word for word in words.split() if re.fullmatch(r"[\w./-]+\.(py|cpp)", word)]
            found[name] = files[:1] if python else files
    return found


def is_run(node):
    """Whether it is not left to the label nightly."""
    return "nightly" not in {getattr(decorator, "id", None) for decorator in getattr(node, "decorator_list", [])}


@functools.cache
def names_in(file):
    """The parts that an entry may name: classes of unittest and their tests, or tests of GoogleTest."""
    text = file.read_text()
    if file.suffix == ".cpp":
        return {f"{suite}.{name}" for suite, name in SUITES.findall(text)}
    found = set()
    for node in filter(is_run, ast.parse(text).body):
        tests = [method.name for method in getattr(node, "body", []) if is_run(method) and getattr(method, "name", "").startswith("test_")]
        if isinstance(node, ast.ClassDef) and tests:
            found |= {node.name, *(f"{node.name}.{name}" for name in tests)}
    return found


def parts_of(entry):
    """As names_in() has them: a GoogleTest with values is called */Suite.Test/VALUE."""
    for part in entry.parts:
        for name in part.removeprefix("--gtest_filter=").split(":"):
            yield name.removeprefix("*/").partition("/")[0] if part.startswith("--gtest_filter=") else name


def problems(entries, tests, commands, kinds, pieces):
    """Everything that is wrong, a line for each."""
    found = []
    shown = [entry for entry in entries if entry.test != "-"]
    of_test = collections.defaultdict(list)
    for entry in shown:
        of_test[entry.test].append(entry)
    for name, its in of_test.items():
        if name not in tests:
            found.append(f"{name} is no test of tests/*/CMakeLists.txt")
            continue
        if len(its) > 1 and not all(entry.parts and tests[name][0].suffix == ".py" for entry in its):
            found.append(f"{name} has {len(its)} entries, as only a file in Python may, each with parts")
        there = set().union(*map(names_in, tests[name]))
        parts = collections.Counter(part for entry in its for part in parts_of(entry))
        found += [f"{name} has no {part}" for part in parts if part not in there]
        found += [f"{name} has {part} twice" for part, count in parts.items() if count > 1]
        found += [f"{name} leaves out what lies between: {passage}" for entry in its for passage in entry.said["README"] if " [...] " in passage]
    found += [f"{entry.test} says nothing of what it shows" for entry in entries if not entry.said["shows"]]
    for kind, needed in (("command", commands), ("plugin", kinds)):
        said = [word for entry in shown for word in entry.said[kind]]
        found += [f"the {kind} {word} has no entry" for word in sorted(needed - set(said))]
        found += [f"there is no {kind} {word}" for word in sorted(set(said) - needed)]
    return found + compared(pieces, [passage for entry in entries for passage in entry.said["README"]])


def today():
    """The arguments of problems() as they are."""
    return {"entries": entries_of((ROOT / "tests/quick.txt").read_text()), "tests": registered(),
            "commands": commands_in((ROOT / "runner/command_line/commands.cpp").read_text()),
            "kinds": plugin_kinds(file.read_text() for file in (ROOT / "sdk/include/ddprun").glob("*.h")),
            "pieces": pieces_of((ROOT / "README.md").read_text())}


class Quick(unittest.TestCase):
    def test_it_is_whole(self):
        found = today()
        self.assertGreater(len(found["commands"]), 20)
        self.assertEqual(found["kinds"], {"model", "dataset", "optimizer", "objective", "callback", "logger"})
        self.assertEqual("\n".join(problems(**found)), "", "the head of tests/quick.txt says how an entry is written")

    def test_what_has_no_entry_and_what_is_wrong_with_one_is_found(self):
        found = today()
        before = problems(**found)
        entry = lambda text: {"entries": found["entries"] + entries_of(text)}  # noqa: E731
        for change, problem in (
            ({"commands": found["commands"] | {"serve"}}, "the command serve has no entry"),
            ({"kinds": found["kinds"] | {"sampler"}}, "the plugin sampler has no entry"),
            ({"pieces": [*found["pieces"], "and flies."]}, "the README's promise has no entry: and flies."),
            (entry("EndToEnd.Nowhere\n  shows x"), "EndToEnd.Nowhere is no test of tests/*/CMakeLists.txt"),
            (entry("EndToEnd.Slurm Steps.test_that_is_not_there\n  shows x"), "EndToEnd.Slurm has no Steps.test_that_is_not_there"),
            (entry("EndToEnd.Slurm Steps\n  shows x\nEndToEnd.Slurm\n  shows y"),
             "EndToEnd.Slurm has 2 entries, as only a file in Python may, each with parts"),
            (entry("launcher_test\n  shows x\nlauncher_test\n  shows y"),
             "launcher_test has 2 entries, as only a file in Python may, each with parts"),
            (entry("EndToEnd.Slurm Steps\n  shows x\nEndToEnd.Slurm Steps\n  shows y"), "EndToEnd.Slurm has Steps twice"),
            (entry("EndToEnd.NetworkParity NetworkParity.test_all_others\n  shows x"),  # which is nightly
             "EndToEnd.NetworkParity has no NetworkParity.test_all_others"),
            (entry("launcher_test --gtest_filter=A.B\n  shows x"), "launcher_test has no A.B"),
            (entry("EndToEnd.Slurm"), "EndToEnd.Slurm says nothing of what it shows"),
            (entry("EndToEnd.Slurm\n  shows x\n  command serve"), "there is no command serve"),
            (entry("EndToEnd.Slurm\n  shows x\n  README exact [...] metrics,"), "EndToEnd.Slurm leaves out what lies between: exact [...] metrics,"),
        ):
            with self.subTest(problem):
                self.assertEqual([one for one in problems(**found | change) if one not in before], [problem])

    def test_a_passage_is_in_the_readme_once_and_touches_pieces(self):
        pieces = ["exact metrics,", "early stopping,", "checkpoints."]
        for passages, reported in (
                (["exact", "stopping, check"], []),
                (["exact [...] points"], []),
                (["stop"], ["the README's promise has no entry: exact metrics,", "the README's promise has no entry: checkpoints."]),
                (["exact [...] points", "late"], ["the README has 0 times, instead of once: late"]),
                (["exact [...] points", "e"], ["the README has 4 times, instead of once: e"]),
        ):  # fmt: skip
            self.assertEqual(compared(pieces, passages), reported, passages)

    def test_entries_and_pieces_are_read_as_they_are_written(self):
        with self.assertRaisesRegex(ValueError, "tests/quick.txt:2: expected one of shows, command"):
            entries_of("EndToEnd.Env\n  names the place")
        page = "# T\nOne, `a: b` and (c, d)\nso on: 1.5.\n\n```sh\na, b\nc  # d\n```\n```yaml\nx: 1\ny: 2\n```\n| a | b, c |\n|---|---|\n\n    p\n      q, r\n"
        self.assertEqual(pieces_of(page), ["One,", "`a: b` and (c, d) so on:", "1.5.", "a, b", "c # d", "x: 1 y: 2", "| a | b,", "c |", "p q, r"])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""A module of runner/ includes what its library links, and nothing else: the CMakeLists.txt define the dependencies."""

import functools
import re
import unittest

from source_tree import INCLUDE, ROOT, calls, includes, planted

RUNNER = ROOT / "runner"
COMMANDS = "feature_commands"  # a module whose files lie with those of features, a library of its own
TOKEN = re.compile(r"\b(?:(PUBLIC|PRIVATE)|ddprun_(\w+))\b")
LIBRARY = "ddprun_add_runner_library"


def modules_of(runner):
    found = {folder.name: folder for folder in sorted(runner.iterdir()) if (folder / "CMakeLists.txt").exists()}
    return found | {COMMANDS: found["features"]} if "features" in found else found


@functools.cache
def of_commands(runner):
    """The files of that module, without extension: what feature.cmake has after COMMANDS."""
    found = set()
    for file in runner.glob("features/*/feature.cmake"):
        words = file.read_text().partition(" COMMANDS ")[2].partition("KEYS")[0].rstrip(")\n").split()
        names = {word.removesuffix(".cpp") if word.endswith(".cpp") else word.replace("-", "_") + "_command" for word in words}
        found |= {f"features/{file.parent.name}/{name}" for name in names}
    return found


def home(path, runner):
    """The module of a file, by its path below runner/ without extension."""
    return COMMANDS if path in of_commands(runner) else path.partition("/")[0]


def files_of(name, folder, runner, *extensions):
    files = sorted(file for extension in extensions for file in folder.rglob(f"*.{extension}"))
    return [file for file in files if home(str(file.relative_to(runner).with_suffix("")), runner) == name]


def linked(name, folder, modules):
    """The modules that the library of this one links: publicly, and at all."""
    public, all_of_them = set(), set()
    for command, arguments in calls(folder / "CMakeLists.txt"):
        if command != LIBRARY or arguments.split()[0] != name:
            continue
        way = "PUBLIC"
        for match in TOKEN.finditer(arguments):
            way = match[1] or way
            if match[2] in modules and match[2] != name:
                all_of_them.add(match[2])
                public |= {match[2]} if way == "PUBLIC" else set()
    return public, all_of_them


def linked_by_target_of(file, folder, modules):
    """The modules that other targets link which a CMakeLists.txt makes of this file: the program, and the GPU backend."""
    made = [(command, arguments) for command, arguments in calls(folder / "CMakeLists.txt") if command != LIBRARY]
    named = [arguments for _, arguments in made if re.search(rf"(?<!\S){re.escape(file.name)}(?!\S)", arguments)]
    targets = {arguments.split()[0] for arguments in named}
    named += [arguments for command, arguments in made if command == "target_link_libraries" and arguments.split()[0] in targets]
    return set(re.findall(r"\bddprun_(\w+)\b", " ".join(named))) & set(modules)


def included(files, runner, modules):
    """The modules whose headers are included, each with a place."""
    found = {}
    for file in files:
        for name, line in includes(file):
            found.setdefault(home(name.rpartition(".")[0], runner), f"runner/{file.relative_to(runner)}:{line}")
    return {module: place for module, place in found.items() if module in modules}


def mistakes(runner):
    modules = modules_of(runner)
    found = []
    for name, folder in modules.items():
        others = set(modules) - {name}
        public, links = linked(name, folder, modules)
        in_headers = included(files_of(name, folder, runner, "h"), runner, others)
        needed = dict(in_headers)
        for file in files_of(name, folder, runner, "cpp", "cu"):
            besides = linked_by_target_of(file, folder, modules)
            for module, place in included([file], runner, others - besides).items():
                needed.setdefault(module, place)
        found += [f"{place} includes a header of {module}/, which ddprun_{name} does not link"
                  for module, place in needed.items() if module not in links]
        found += [f"{place}, a header, includes one of {module}/, which ddprun_{name} links as PRIVATE"
                  for module, place in in_headers.items() if module in links - public]
        found += [f"ddprun_{name} links ddprun_{module}, of which it includes nothing" for module in sorted(links - set(needed))]
    for file in sorted(runner.glob("*.cpp")):
        links = linked_by_target_of(file, runner, modules)
        found += [f"{place} includes a header of {module}/, which its target does not link"
                  for module, place in included([file], runner, modules).items() if module not in links]
    return found


def levels(runner):
    """Modules by their level: above all that they link. Raises RecursionError for a circle."""
    modules = modules_of(runner)

    def level(name):
        return 1 + max((level(module) for module in linked(name, modules[name], modules)[1]), default=-1)

    return {name: level(name) for name in modules}


COMMENT = re.compile(r"""//[^\n]*|'(?:\\.|[^'\\\n])'|"(?:\\.|[^"\\\n])*\"""")
NAME = re.compile(r"(?<![\w.>:])[A-Za-z_]\w{3,}")
DECLARATION = re.compile(r"\bk[A-Z]\w+|^(?:class|struct|enum class)(?: DDPRUN_API)? \w+(?=[^;(]*\{)|^\S[\w:<>,&* ]* [*&]?[a-z]\w*_\w+(?=\()", re.MULTILINE)


def names_without_header(runner, sdk):
    """What a source names though none of its headers declares it: it compiles only joined with others (CMake's unity build). Looks at
    constants, types and functions of several words that one header declares."""
    headers = {str(file.relative_to(runner)): file for file in runner.rglob("*.h")}
    headers |= {f"ddprun/{file.relative_to(sdk)}": file for file in sdk.rglob("*.h")}
    text = {file: INCLUDE.sub("", COMMENT.sub("", file.read_text())) for file in [*headers.values(), *runner.rglob("*.cpp")]}
    declared = {}
    for file in headers.values():
        for match in DECLARATION.finditer(text[file]):
            declared.setdefault(match[0].split()[-1].lstrip("*&"), set()).add(file)
    home = {name: files.pop() for name, files in declared.items() if len(files) == 1}

    def reached(file, seen):
        for name, _ in includes(file):
            if name in headers and headers[name] not in seen:
                seen.add(headers[name])
                reached(headers[name], seen)
        return seen

    found = []
    for file in sorted(runner.rglob("*.cpp")):
        seen = reached(file, set())
        foreign = {name for name in NAME.findall(text[file]) if name in home and home[name] not in seen}
        around = "".join(text[header] for header in seen)
        for name in sorted(foreign):
            own = re.search(rf"\b(class|struct|using|auto|string|constexpr[^;(]*|enum[^;]*)\s{name}\b|\b{name}\([^;]*\)[^;]*\{{", text[file])
            if not own and not re.search(rf"\b{name}\b", around):
                found.append(f"runner/{file.relative_to(runner)} names {name} without {home[name].name}")
    return found


REGISTERED = re.compile(r'\bDDPRUN_[A-Z]+\(\s*[\w:]+,\s*"(\w+)"')
CODE_TEXT = re.compile(r"""//[^\n]*|"((?:\\.|[^"\\\n])*)\"""")
DEFAULT_LOGGERS = "kDefaultLoggers"  # the names that an experiment has where it says nothing
WORDS = {"shards", "text"}  # keys that are called as a plugin is


def plugins_named(runner, plugins):
    """Where the runner's code names a plugin that comes with ddprun: it asks all plugins of a kind instead."""
    names = {name for file in plugins.rglob("*.cpp") for name in REGISTERED.findall(file.read_text())}
    choice = re.compile(rf"plugin: ({'|'.join(sorted(names))})\b") if names else None
    found = []
    for file in sorted([*runner.rglob("*.cpp"), *runner.rglob("*.h")]):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            texts = [match[1] for match in CODE_TEXT.finditer(line) if match[1] and DEFAULT_LOGGERS not in line]
            found += [f"runner/{file.relative_to(runner)}:{number} names the plugin {text}" for text in texts
                      if text in names - WORDS or choice.search(text)]
    return found


HOUSE = {
    "CMakeLists.txt": "add_executable(ddprun main.cpp)\ntarget_link_libraries(ddprun PRIVATE ddprun_cli)\n", "main.cpp": '#include "cli/verb.h"\n',
    "base/CMakeLists.txt": f"{LIBRARY}(base SOURCES x.cpp)\n", "cli/verb.cpp": '#include "base/log.h"\n',
    "cli/CMakeLists.txt": f"{LIBRARY}(cli SOURCES x.cpp LINK PUBLIC ddprun_base)\n",
}  # fmt: skip
FEATURE = {
    "features/CMakeLists.txt": f"{LIBRARY}(features SOURCES x.cpp LINK PUBLIC ddprun_base)\n"
                               f"{LIBRARY}({COMMANDS} LINK PUBLIC ddprun_base PRIVATE ddprun_cli ddprun_features)\n",
    "features/a/feature.cmake": "ddprun_feature(SOURCES a.cpp COMMANDS b-c COMMAND_SOURCES d.cpp KEYS a)\n",
    "features/a/b_c_command.cpp": '#include "cli/verb.h"\n#include "features/a/a.h"\n#include "features/a/d.h"\n',
    "features/a/d.h": '#include "base/log.h"\n', "features/a/a.h": '#include "base/log.h"\n',
}  # fmt: skip
HEADER = {"cli/verb.h": '#include "base/log.h"\n'}
# (files besides those of HOUSE, or in their place; the mistake)
PLANTED = [
    ({}, None), (HEADER, None), (FEATURE, None),
    ({"base/log.h": '#pragma once\n#include "cli/verb.h"\n'}, "runner/base/log.h:2 includes a header of cli/, which ddprun_base does not link"),
    ({"cli/verb.cpp": ""}, "ddprun_cli links ddprun_base, of which it includes nothing"),
    (HEADER | {"cli/CMakeLists.txt": f"{LIBRARY}(cli SOURCES x.cpp LINK PUBLIC x::y PRIVATE ddprun_base)\n"},
     "runner/cli/verb.h:1, a header, includes one of base/, which ddprun_cli links as PRIVATE"),
    (FEATURE | {"features/a/a.cpp": '#include "features/a/d.h"\n'},
     "runner/features/a/a.cpp:1 includes a header of feature_commands/, which ddprun_features does not link"),
    ({"main.cpp": '#include "base/log.h"\n'}, "runner/main.cpp:1 includes a header of base/, which its target does not link"),
]  # fmt: skip


class ModulesTest(unittest.TestCase):
    def test_a_module_includes_what_it_links(self):
        self.assertEqual(mistakes(RUNNER), [])
        self.assertEqual(levels(RUNNER)["base"], 0)

    def test_each_source_includes_what_declares_the_names_it_uses(self):
        self.assertEqual(names_without_header(RUNNER, ROOT / "sdk/include/ddprun"), [])

    def test_the_runner_names_no_plugin(self):
        self.assertEqual(plugins_named(RUNNER, ROOT / "plugins"), [])

    def test_planted_includes_and_links_are_found(self):
        for files, mistake in PLANTED:
            with self.subTest(mistake=mistake):
                self.assertEqual(mistakes(planted(self, HOUSE | files)), [mistake] if mistake else [])

    def test_planted_names_are_found(self):
        tree = planted(self, {"a.h": "enum Code : int {\n  kDone = 0,\n};\n", "b.h": '#include "a.h"\n',
                              "good.cpp": '#include "b.h"\nint f() { return kDone; }\n', "bad.cpp": "// kDone\nint g() { return kDone; }\n"})
        self.assertEqual(names_without_header(tree, tree / "sdk"), ["runner/bad.cpp names kDone without a.h"])
        tree = planted(self, {"runner/a.cpp": 'f("net");  // "net"\ng("{plugin: net, depth: 2}");\nh("network");\n',
                              "plugins/net.cpp": 'DDPRUN_MODEL(a::Net, "net",\n  "a network")\n'})
        self.assertEqual(plugins_named(tree / "runner", tree / "plugins"),
                         ["runner/a.cpp:1 names the plugin net", "runner/a.cpp:2 names the plugin {plugin: net, depth: 2}"])


if __name__ == "__main__":
    unittest.main()

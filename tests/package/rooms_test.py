# SPDX-License-Identifier: MIT
"""A room of runner/ includes what its library links, and nothing else: the CMakeLists.txt are the plan of the house."""

import pathlib
import re
import tempfile
import unittest

RUNNER = pathlib.Path(__file__).resolve().parents[2] / "runner"
INCLUDE = re.compile(r'^#include "(\w+)/', re.MULTILINE)


def rooms_of(runner):
    return {folder.name: folder for folder in sorted(runner.iterdir()) if (folder / "CMakeLists.txt").exists()}


def linked(folder, rooms):
    words = re.findall(r"\bddprun_(\w+)\b", (folder / "CMakeLists.txt").read_text())
    return (set(words) & set(rooms)) - {folder.name}


def included(folder, rooms):
    """The rooms whose headers are included, each with a place."""
    found = {}
    for file in sorted([*folder.glob("*.h"), *folder.glob("*.cpp")]):
        text = file.read_text()
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.setdefault(match[1], f"runner/{folder.name}/{file.name}:{line}")
    return {room: place for room, place in found.items() if room in rooms and room != folder.name}


def mistakes(runner):
    rooms = rooms_of(runner)
    found = []
    for name, folder in rooms.items():
        links, includes = linked(folder, rooms), included(folder, rooms)
        found += [f"{place} includes a header of {room}/, which ddprun_{name} does not link"
                  for room, place in includes.items() if room not in links]
        found += [f"ddprun_{name} links ddprun_{room}, of which it includes nothing" for room in sorted(links - set(includes))]
    return found


def floors(runner):
    """Rooms by the floor that they stand on: above all that they link. Raises RecursionError for a circle."""
    rooms = rooms_of(runner)

    def floor(name):
        return 1 + max((floor(room) for room in linked(rooms[name], rooms)), default=-1)

    return {name: floor(name) for name in rooms}


class RoomsTest(unittest.TestCase):
    def test_a_room_includes_what_it_links(self):
        self.assertEqual(mistakes(RUNNER), [])

    def test_no_room_stands_above_itself(self):
        self.assertEqual(floors(RUNNER)["base"], 0)

    def test_a_planted_include_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            runner = pathlib.Path(folder)
            for name, links in [("base", ""), ("cli", "LINK PUBLIC ddprun_base")]:
                (runner / name).mkdir()
                (runner / name / "CMakeLists.txt").write_text(f"ddprun_add_runner_library({name} {links})\n")
            (runner / "cli/verb.cpp").write_text('#include "base/log.h"\n')
            self.assertEqual(mistakes(runner), [])
            (runner / "base/log.h").write_text('#pragma once\n#include "cli/verb.h"\n')
            self.assertEqual(mistakes(runner), ["runner/base/log.h:2 includes a header of cli/, which ddprun_base does not link"])
            (runner / "cli/verb.cpp").write_text("")
            self.assertEqual(mistakes(runner)[1:], ["ddprun_cli links ddprun_base, of which it includes nothing"])


if __name__ == "__main__":
    unittest.main()

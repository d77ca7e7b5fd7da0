# SPDX-License-Identifier: MIT
"""No folder has more lines than tests/ceiling.txt allows it, nor so few that its ceiling has to come down.

`ceiling_test.py --lower` writes the ceilings that are too high anew; it raises none."""

import collections
import sys
import unittest

from source_tree import ROOT, tracked

TABLE = ROOT / "tests/ceiling.txt"
ROOMS = ("plugins", "runner", "sdk", "tests", "tools")  # a ceiling for each folder in them; of what lies beside, for the whole
SLACK = 0.02


def room_of(path):
    folder, *below = path.split("/")
    if folder in ROOMS:
        return f"{folder}/{below[0]}" if len(below) > 1 else folder
    return folder if below or folder == "CHANGELOG.md" else "."


def counted():
    """The lines of each room, of files that are text and that git has."""
    lines = collections.Counter()
    for file in tracked():
        if b"\0" not in (content := file.read_bytes()):
            lines[room_of(file.relative_to(ROOT).as_posix())] += content.count(b"\n")
    return +lines


def read(text):
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {room: int(most) for room, most in rows}


def mistakes(lines, ceilings):
    found = []
    for room, count in sorted(lines.items()):
        most = ceilings.get(room)
        if most is None:
            found.append(f"{room} has {count} lines and no ceiling: add it, and lower others by as much")
        elif count > most:
            found.append(f"{room} has {count} lines, {count - most} above its ceiling of {most}: take as many away")
        elif count < most * (1 - SLACK):
            found.append(f"{room} has {count} lines: lower the ceiling of {most} to {count}")
    return found + [f"{room} has a ceiling and no lines: remove it" for room in sorted(ceilings.keys() - lines.keys())]


def lowered(text, lines):
    """The table with no ceiling that is higher than its room."""
    result = []
    for line in text.splitlines():
        room, most = line.split() if line and not line.startswith("#") else (None, None)
        if room is None:
            result.append(line)
        elif lines[room]:
            result.append(f"{room} {min(int(most), lines[room])}")
    return "\n".join(result) + "\n"


class Ceiling(unittest.TestCase):
    def test_each_folder_stays_below_its_ceiling(self):
        lines = counted()
        self.assertEqual(mistakes(lines, read(TABLE.read_text())), [], "see tests/ceiling.txt")
        largest = ", ".join(f"{room} {count}" for room, count in lines.most_common(10))
        print(f"{sum(lines.values())} lines; the largest folders: {largest}")

    def test_what_a_table_can_have_wrong_and_that_ceilings_only_come_down(self):
        ceilings = {"sdk/src": 1000, "tests/base": 100}
        for lines, says in [
            ({"sdk/src": 980, "tests/base": 100}, []),
            ({"sdk/src": 1001, "tests/base": 100}, ["sdk/src has 1001 lines, 1 above its ceiling of 1000: take as many away"]),
            ({"sdk/src": 979, "tests/base": 100}, ["sdk/src has 979 lines: lower the ceiling of 1000 to 979"]),
            ({"sdk/src": 1000, "tests/base": 100, "docs": 5}, ["docs has 5 lines and no ceiling: add it, and lower others by as much"]),
            ({"sdk/src": 1000}, ["tests/base has a ceiling and no lines: remove it"]),
        ]:
            self.assertEqual(mistakes(lines, ceilings), says)
        lines = collections.Counter({"sdk/src": 990, "tests/base": 120})
        self.assertEqual(lowered("# most lines\nsdk/src 1000\ntests/base 100\ntests/gone 7\n", lines), "# most lines\nsdk/src 990\ntests/base 100\n")

    def test_the_room_of_a_file(self):
        for path, room in [("runner/train/trainer.cpp", "runner/train"), ("tools/test", "tools"), ("docs/decisions/0001-a.md", "docs"),
                           ("CHANGELOG.md", "CHANGELOG.md"), ("README.md", "."), (".ci/run", ".ci")]:
            self.assertEqual(room_of(path), room)


if __name__ == "__main__":
    if sys.argv[1:] == ["--lower"]:
        TABLE.write_text(lowered(TABLE.read_text(), counted()))
    else:
        unittest.main()

"""The keys of an experiment file that a ddprun knows: what a check or a table switches may be younger than the program."""

import subprocess


def known_keys(program):
    """{"trainer.layout", ...}"""
    return parse(subprocess.run([program, "keys"], capture_output=True, text=True, timeout=60, check=True).stdout)


def parse(text):
    """Of what `ddprun keys` prints: sections at the line's beginning, their keys below them by two blanks, help by more."""
    section, keys = "", set()
    for line in text.splitlines():
        name = line.split("  ")[0]
        if name.endswith(":"):
            section = name[:-1] + "."
        elif line.startswith("  ") and not line.startswith("   "):
            keys.add(section + line.split()[0])
        elif name:
            section = ""  # at the top
    return keys

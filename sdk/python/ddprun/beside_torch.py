# SPDX-License-Identifier: MIT
"""The torch in a folder of packages, and those beside it that are made for one version of it. Imports nothing that Python has
not loaded anyway, because the command `ddprun` starts through it."""

import os
import sys

NAMES = ("torchvision", "torchaudio")
LIMITS = {
    "==": lambda torch, limit: torch == limit,
    ">=": lambda torch, limit: torch >= limit,
    "<=": lambda torch, limit: torch <= limit,
    ">": lambda torch, limit: torch >= limit,
    "<": lambda torch, limit: torch <= limit,
}


def torch_in(folder):
    """Returns its version, or "" where there is none."""
    for line in lines_of(os.path.join(folder, "torch", "version.py")):
        if line.startswith("__version__ = '"):
            return line.split("'")[1]
    return ""


def beside_torch(folder):
    """Returns those that are there: named without a version in pip's command, they get the one that fits, because they require their
    torch.
    """
    return [name for name in NAMES if os.path.isdir(os.path.join(folder, name))]


def misfits(folder):
    """Returns ["torchvision 0.29.2 requires torch>=2.14.0"] of what this torch cannot load: pip installs another torch under a package
    without changing it.
    """
    torch, names = torch_in(folder), beside_torch(folder)
    found = []
    for file in sorted(os.listdir(folder)) if torch and names else []:
        name, _, version = file.removesuffix(".dist-info").partition("-")
        if name in names and file.endswith(".dist-info"):
            wanted = required_torch(lines_of(os.path.join(folder, file, "METADATA")))
            if not fits(wanted, torch):
                found.append(f"{name} {version} requires torch{wanted}")
    return found


def required_torch(metadata):
    """Returns ">=2.14.0" of "Requires-Dist: torch>=2.14.0"."""
    for line in metadata:
        if line.startswith("Requires-Dist: torch") and line[len("Requires-Dist: torch")] in " (=<>!~":
            return line.removeprefix("Requires-Dist: torch").split(";")[0].strip(" ()\n").replace(" ", "")
    return ""


def fits(wanted, torch):
    """Whether "==2.11.0" or ">=2.14.0,<3" takes this torch, as far as its minor version shows: the C++ ABI lasts for one."""
    for one in wanted.split(","):
        limit = one.lstrip("=<>!~")
        compare = LIMITS.get(one[: len(one) - len(limit)])
        if compare and not compare(minor(torch), minor(limit)):
            return False
    return True


def minor(version):
    """Returns [2, 11] of 2.11.1+cu130."""
    return [int(part) for part in version.split(".")[:2] if part.isdigit()]


def mending(folder, torch, *options):
    """Returns the command that mends torch and all that is made for it. `torch` is a version, or 2.11.* for any of a minor one."""
    return " ".join([sys.executable, "-m pip install", *options, f"'torch=={torch}'", *beside_torch(folder)])


def lines_of(file):
    try:
        with open(file, encoding="utf-8") as lines:
            return lines.readlines()
    except FileNotFoundError:
        return []

# SPDX-License-Identifier: MIT
"""Finds these tools: in a clone, or in share/ddprun of an installed ddprun. Both have
tools/ and configs/.
"""

import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
IN_CLONE = (ROOT / "tools/ddprun").is_file()


def command(name):
    """Returns how a tool is called: tools/follow, or the command ddprun-follow."""
    return f"tools/{name}" if IN_CLONE else f"ddprun-{name.replace('_', '-')}"


def fitting_torch():
    """Returns the torch that this ddprun is made for, as pip takes it: torch==2.11.*"""
    for prefix in (ROOT / "build/release", ROOT.parent.parent):
        file = prefix / "lib/cmake/ddprun/ddprunConfig.cmake"
        if file.is_file() and (found := re.search(r"DDPRUN_TORCH_MINOR VERSION_EQUAL ([0-9.]+)", file.read_text())):
            return f"torch=={found[1]}.*"
    found = re.search(r"^torch==\d+\.\d+", (ROOT / "tools/requirements.txt").read_text(), re.MULTILINE)
    return f"{found[0]}.*"


def kept():
    """Returns the folder for what is made once: beside the build, or in the user's cache."""
    if IN_CLONE:
        return ROOT / "build"
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "ddprun"

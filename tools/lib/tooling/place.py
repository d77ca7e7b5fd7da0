# SPDX-License-Identifier: MIT
"""Finds these tools: in a clone, or in share/ddprun of an installed ddprun. Both have
tools/ and configs/.
"""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
IN_CLONE = (ROOT / "tools/ddprun").is_file()


def command(name):
    """Returns how a tool is called: tools/follow, or the command ddprun-follow."""
    return f"tools/{name}" if IN_CLONE else f"ddprun-{name.replace('_', '-')}"


def kept():
    """Returns the folder for what is made once: beside the build, or in the user's cache."""
    if IN_CLONE:
        return ROOT / "build"
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "ddprun"

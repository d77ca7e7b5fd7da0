# SPDX-License-Identifier: MIT
"""What pyproject.toml cannot say itself: which torch the wheel needs. LibTorch's C++ ABI lasts for one minor version."""

import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def dynamic_metadata(settings, project):
    major, minor = torch_version().split(".")[:2]
    return {"dependencies": [f"torch=={major}.{minor}.*"]}


def torch_version():
    """Of the torch that the build uses; where nothing is built yet, of the one that tools/setup installs."""
    cache = pathlib.Path(os.environ.get("DDPRUN_BUILD") or ROOT / "build/release") / "CMakeCache.txt"
    if not cache.exists():
        return found(r"^torch==(\S+)", ROOT / "tools/requirements.txt")
    return found(r"^__version__ = '([^']+)", pathlib.Path(found(r"^DDPRUN_TORCH_DIR:\w+=(.+)", cache)) / "version.py")


def found(pattern, file):
    match = re.search(pattern, file.read_text(), re.MULTILINE)
    if not match:
        raise RuntimeError(f"{file} has no line {pattern}")
    return match[1]

# SPDX-License-Identifier: MIT
"""What pyproject.toml cannot say itself: the version, and which torch the wheel needs. LibTorch's C++ ABI lasts for one minor
version of torch, so there is a wheel for each, and their names distinguish them: 0.2.0+torch2.11."""

import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def dynamic_metadata(settings, project):
    torch = ".".join(torch_version().split(".")[:2])
    version = found(r"^project\(ddprun VERSION ([0-9.]+)", ROOT / "CMakeLists.txt")
    return {"version": f"{version}+torch{torch}", "dependencies": [f"torch=={torch}.*", "numpy", "safetensors"]}  # those two for ddprun-convert-weights and ddprun init


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

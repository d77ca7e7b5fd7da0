# SPDX-License-Identifier: MIT
"""Finds the program ddprun, to start it from Python."""

import os
import pathlib
import shutil
import subprocess
import sys

from ddprun.errors import UserError
from ddprun.terminal import printable

PACKAGE = pathlib.Path(__file__).resolve().parent


def program():
    """Returns its path: $DDPRUN_PROGRAM, else the one that this package came with, else the one in $PATH."""
    if named := os.environ.get("DDPRUN_PROGRAM"):
        return program_at(named, f"DDPRUN_PROGRAM={named}")
    for path in ours():
        if os.access(path, os.X_OK) and path.is_file():
            return path
    if path := shutil.which("ddprun"):
        return pathlib.Path(path)
    raise UserError(f"there is no program ddprun, neither beside {PACKAGE} nor in PATH; DDPRUN_PROGRAM=<path> names one")


def program_at(name, given):
    path = shutil.which(name)
    if not path:
        raise UserError(f"{given}: there is no such program")
    return pathlib.Path(path).resolve()


def ours():
    """Looks in a wheel, in an installation (its package is share/ddprun/python/ddprun), and in a clone, where it is
    built when needed.
    """
    return [PACKAGE / "bin/ddprun", *((PACKAGE / place).resolve() for place in ("../../../../bin/ddprun", "../../../tools/ddprun"))]


def command():
    """Returns the command that starts it. A wheel's goes through `python -m ddprun`, which reports an incomplete wheel or a wrong torch."""
    path = program()
    in_wheel = path == PACKAGE / "bin/ddprun" and (PACKAGE / "__main__.py").is_file()
    return [sys.executable, "-m", "ddprun"] if in_wheel else [str(path)]


def answer(*words):
    """Returns what a command prints that needs no torch, so that any Python may ask. Raises UserError with its own text if it
    fails. In a clone it is asked as it is, and not built anew.
    """
    path = program()
    built = path.parents[1] / "build/release/bin/ddprun"
    return done([str(built if built.is_file() else path)], words).stdout


def say_and_run(*words):
    """Runs a command of the program and shows what it prints, its warnings first. Raises UserError as answer() does."""
    ended = done(command(), words)
    sys.stdout.write(printable(ended.stderr + ended.stdout))
    sys.stdout.flush()


def done(start, words):
    try:
        ended = subprocess.run(
            [*start, *map(os.fspath, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            env={"DDPRUN_PYTHON": sys.executable, **os.environ}, check=False)  # fmt: skip
    except OSError as error:
        raise UserError(f"{start[0]} cannot be started: {error.strerror}") from None
    if ended.returncode != 0:
        text = ended.stderr.strip().removeprefix("ddprun: error: ")
        raise UserError(text or f"ddprun {words[0]} ended with exit code {ended.returncode}")
    return ended


def cmake_prefix():
    """Returns what CMAKE_PREFIX_PATH needs for find_package(ddprun): in a wheel, an installation, or a built clone."""
    for prefix in (PACKAGE, PACKAGE / "../../../..", PACKAGE / "../../../build/release"):
        if (prefix / "lib/cmake/ddprun").is_dir():
            return str(prefix.resolve())
    raise UserError(f"there is no SDK with {PACKAGE}: install ddprun again")

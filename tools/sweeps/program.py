# SPDX-License-Identifier: MIT
import os
import pathlib
import shutil
import subprocess
import sys

from runs import place
from runs.user_error import UserError


class Program:
    """ddprun, as trials are started with it."""

    def __init__(self, named=None):
        self.path = find(named)

    def run(self, *words):
        return subprocess.run(
            [self.path, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    def problems(self, experiment, overrides):
        """What `ddprun check` finds wrong, a line each."""
        done = self.run("check", experiment, *overrides)
        if done.returncode == 0:
            return []
        lines = [line.removeprefix("ddprun: error: ") for line in done.stderr.splitlines() if line.strip()]
        return lines or [f"`ddprun check {experiment}` ended with {done.returncode}"]

    def write_composed(self, experiment, overrides, file):
        """The experiment without a trial's values."""
        done = self.run("--cfg", experiment, *overrides)
        if done.returncode:
            raise UserError(done.stderr.strip().removeprefix("ddprun: error: "))
        file.write_text(done.stdout)


def find(named):
    """--ddprun, else $DDPRUN, else the one installed with this tool, or that of this clone, brought up to date."""
    for source, text in (("--ddprun", named), ("$DDPRUN", os.environ.get("DDPRUN"))):
        if text:
            path = shutil.which(text)
            if not path:
                raise UserError(f"{source} {text}: there is no such program")
            return str(pathlib.Path(path).resolve())
    if not place.IN_CLONE:
        return str(place.program())
    done = subprocess.run(
        [place.ROOT / "tools/ddprun", "--version"], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False
    )
    if done.returncode:
        raise UserError("ddprun could not be built; the lines above say why")
    return str(place.ROOT / "build/release/bin/ddprun")

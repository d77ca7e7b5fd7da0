# SPDX-License-Identifier: MIT
import subprocess
import sys

from ddprun.errors import UserError
from ddprun.fork_server import ForkServer
from ddprun.program import program, program_at
from tooling import place
from tooling.durable import write_file


class Program:
    """The ddprun that trials are started with."""

    def __init__(self, named=None):
        self.path = find(named)
        self.server = ForkServer(self.path)

    def run(self, *words):
        return subprocess.run(
            [self.path, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    def problems(self, experiment, overrides):
        """Returns what `ddprun check` finds wrong, a line each; without the data, which only the trials' machines need."""
        done = self.run("check", experiment, *overrides, "--no-data")
        if done.returncode == 0:
            return []
        lines = [line.removeprefix("ddprun: error: ") for line in done.stderr.splitlines() if line.strip()]
        return lines or [f"`ddprun check {experiment}` ended with {done.returncode}"]

    def write_composed(self, experiment, overrides, file):
        """Returns the experiment without a trial's values."""
        done = self.run("--cfg", experiment, *overrides)
        if done.returncode:
            raise UserError(done.stderr.strip().removeprefix("ddprun: error: "))
        write_file(file, done.stdout)


def find(named):
    """Returns --ddprun, else the program of the package ddprun; the one of this clone is first brought up to date, once
    for all trials.
    """
    path = program_at(named, f"--ddprun {named}") if named else program()
    if path != place.ROOT / "tools/ddprun":
        return str(path)
    done = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if done.returncode:
        raise UserError("ddprun could not be built; the lines above say why")
    built = place.ROOT / "build/release/bin/ddprun"
    return str(built if built.is_file() else path)

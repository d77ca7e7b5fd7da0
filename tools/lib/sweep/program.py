# SPDX-License-Identifier: MIT
"""The ddprun that trials are started with, and what it says of their parameters before the first one."""

import concurrent.futures
import os
import re
import subprocess
import sys

from ddprun.errors import UserError
from ddprun.fork_server import ForkServer
from ddprun.program import program, program_at
from tooling import place


class Program:
    def __init__(self, named=None):
        self.path = os.environ["DDPRUN_PROGRAM"] = find(named)  # ddprun.Run asks it too
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

    def composed(self, experiment, overrides):
        """Returns the experiment without a trial's values, as YAML."""
        done = self.run("--cfg", experiment, *overrides)
        if done.returncode:
            raise UserError(done.stderr.strip().removeprefix("ddprun: error: "))
        return done.stdout


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


def check_values(sweep, program, overrides):
    """Has the program check that the experiment has each parameter and accepts its values; for ranges both ends."""
    if problems := program.problems(sweep.experiment, overrides):
        raise UserError("\n".join(problems))
    rows = list(sweep.probe_rows())
    with concurrent.futures.ThreadPoolExecutor(min(len(rows), os.cpu_count() or 1)) as pool:
        found = pool.map(lambda row: program.problems(sweep.experiment, [*overrides, *row]), rows)
    lines = {}  # a path that is not there is reported once, with the first of its values
    for line in (line for problems in found for line in problems):
        what = re.sub(r"^command line: ([^=]*)=.*?: ", r"\1: ", line)  # without the value, which the text names again
        lines.setdefault(what, placed(line, sweep))
    if lines:
        raise UserError("\n".join(text for _, text in sorted(lines.values())))


def placed(line, sweep):
    """Returns (line of the sweep file, text), which names that instead of the command line."""
    for parameter in sweep.parameters:
        if found := re.match(rf"command line: {re.escape(parameter.path)}=(.*?): (.*)", line):
            at = parameter.node.line
            return at, f"{sweep.file}:{at}: with {parameter.path}={found[1]}: {found[2]}"
    return 0, line

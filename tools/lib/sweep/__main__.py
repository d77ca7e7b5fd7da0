#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Searches hyperparameters: tools/sweep sweeps/digits.yaml. Each trial is a run of ddprun. See `ddprun docs sweeps`."""

import sys

sys.dont_write_bytecode = True

from tooling.start import run_tool  # noqa: E402; first: it makes ddprun known
from sweep.arguments import parse_arguments  # noqa: E402
from sweep.packages import require_packages  # noqa: E402


def main():
    command, options = parse_arguments(sys.argv[1:])
    require_packages()
    from sweep import commands  # needs what was just required

    commands.say_what_optuna_says()
    return getattr(commands, command)(options)


if __name__ == "__main__":
    run_tool(main, "sweep")

# SPDX-License-Identifier: MIT
"""Starts a tool, and ends it with one line where the user can mend what is wrong."""

import os
import sys

from tooling.place import IN_CLONE, ROOT
from ddprun import UserError
from ddprun.terminal import printable


def run_tool(main, name):
    """Exits with what main() returns; a UserError is printed behind the tool's name, with exit code 2."""
    try:
        sys.exit(main())
    except UserError as error:
        print(f"{name}: error: {printable(error)}", file=sys.stderr)
        sys.exit(2)


def use_clones_python():
    """Starts the tool anew with the clone's Python, which has torch, unless that is what runs, or there is none."""
    python = ROOT / ".venv/bin/python"
    if IN_CLONE and python.exists() and sys.executable != str(python):
        os.execv(python, [str(python), *sys.argv])

# SPDX-License-Identifier: MIT
"""Starts a tool, and ends it with one line where the user can mend what is wrong."""

import sys

from ddprun import UserError
from ddprun.terminal import printable


def run_tool(main, name):
    """Exits with what main() returns; a UserError is told behind the tool's name, with exit code 2."""
    try:
        sys.exit(main())
    except UserError as error:
        print(f"{name}: error: {printable(error)}", file=sys.stderr)
        sys.exit(2)

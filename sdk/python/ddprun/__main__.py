# SPDX-License-Identifier: MIT
"""python -m ddprun ARGUMENT...: the program. python -m ddprun --cmake-dir: what CMAKE_PREFIX_PATH needs to find its SDK."""

import sys

from ddprun import _start

if sys.argv[1:] == ["--cmake-dir"]:
    print(_start.PREFIX)
else:
    _start.ddprun()

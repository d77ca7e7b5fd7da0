# SPDX-License-Identifier: MIT
"""ddprun: distributed training of YAML experiments, by plugins."""

import os


def cmake_prefix():
    """What CMAKE_PREFIX_PATH needs for find_package(ddprun)."""
    return os.path.dirname(os.path.abspath(__file__))

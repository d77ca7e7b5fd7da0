# SPDX-License-Identifier: MIT
"""Starts runs of ddprun in Python and reads them. docs/python.md shows how.

    run = ddprun.train("experiments/digits.yaml", trainer__max_epochs=3)
    run = ddprun.run("outputs/digits/latest")
    run.metrics("val"), run.weights("best"), ddprun.runs("outputs")

Needs nothing but Python itself; uses pandas, numpy and torch where they are there.
"""

import importlib

__version__ = "0.2.0"  # the program's version, and that of the runs it reads

# Imported on demand, because the command `ddprun` starts through this package too.
_HOMES = {
    "Failed": "errors",
    "Interrupted": "errors",
    "Run": "run_folder",
    "Runs": "run_list",
    "UserError": "errors",
    "cmake_prefix": "program",
    "run": "run_folder",
    "runs": "run_list",
    "train": "training",
}
__all__ = list(_HOMES)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__():
    return sorted([*globals(), *_HOMES])

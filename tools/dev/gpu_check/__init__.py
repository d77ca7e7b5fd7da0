"""Checks ddprun on a machine with GPUs: what tools/gpu_check runs. Needs nothing but Python itself."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "sdk/python"))  # the package ddprun, which reads runs

"""One way to measure: sides in rounds, tables as data. tools/dev/measure/run compares ddprun with Python on this
machine, tools/gpu_check checks and measures it on a GPU."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "sdk/python"))  # the package ddprun, which reads runs

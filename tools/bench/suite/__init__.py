"""ddprun beside its peers: what tools/bench/run runs."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "sdk/python"))  # the package ddprun, which reads runs

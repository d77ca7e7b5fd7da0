"""ddprun beside its peers: what tools/dev/bench/run runs."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[4] / "sdk/python"))  # the package ddprun, which reads runs

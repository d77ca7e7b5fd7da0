# SPDX-License-Identifier: MIT
"""What the tools in Python share: where they lie, and how they are stopped. A tool imports it first, for it makes the package
ddprun known, which reads runs: that of the clone, of the installation, or of the wheel that the tool is a part of."""

import sys

from tooling.place import ROOT

for folder in (ROOT / "sdk/python", ROOT / "python"):
    if (folder / "ddprun").is_dir():
        sys.path.insert(1, str(folder))
        break
else:
    sys.path.append(str((ROOT / "../../..").resolve()))  # a wheel's site-packages; last, for we may run in another Python's venv

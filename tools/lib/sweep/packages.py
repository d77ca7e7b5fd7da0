# SPDX-License-Identifier: MIT
"""Finds Optuna: in the Python that runs us, or in an environment of our own (150 MB, beside the build or in the user's
cache), which is made when first needed: so one command is enough in a fresh clone.
"""

import fcntl
import importlib.metadata
import os
import re
import subprocess
import sys

from ddprun.errors import UserError
from tooling.place import ROOT, kept

REQUIREMENTS = ROOT / "tools/lib/sweep/requirements.txt"
ENVIRONMENT = kept() / "sweep_env"
LOG = kept() / "pip_sweep.log"


def require_packages():
    """Returns if Optuna is there, in the version that this was written for; otherwise continues in our own Python."""
    wanted = re.search(r"^optuna==(\d+)", REQUIREMENTS.read_text(), re.MULTILINE)[1]
    try:
        if importlib.metadata.version("optuna").split(".")[0] == wanted:
            return
    except importlib.metadata.PackageNotFoundError:
        pass
    if os.path.realpath(sys.prefix) == os.path.realpath(ENVIRONMENT):
        raise UserError(f"{ENVIRONMENT} is damaged: remove it, and call again")
    python = str(make_environment())
    os.execv(python, [python, "-B", *sys.argv])


def make_environment():
    """Returns its Python. If called several times at once, one call makes it and the others wait."""
    python, stamp = ENVIRONMENT / "bin/python", ENVIRONMENT / ".complete"
    made_of = f"{ENVIRONMENT}\n{sys.version}\n{REQUIREMENTS.read_text()}"  # its scripts have its path
    kept().mkdir(parents=True, exist_ok=True)
    with open(kept() / ".sweep_env_lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != made_of:
            install(python)
            stamp.write_text(made_of)
    return python


def install(python):
    print(f"sweep: installing Optuna into {ENVIRONMENT} (once; log: {LOG})", file=sys.stderr, flush=True)
    pip = [python, "-m", "pip", "install", "--no-input", "--progress-bar", "off", "--disable-pip-version-check"]
    with open(LOG, "w") as log:
        for words in ([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], [*pip, "--requirement", REQUIREMENTS]):
            done = subprocess.run(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False)
            if done.returncode:
                last = "".join(f"\n  {line[:200]}" for line in LOG.read_text(errors="replace").splitlines()[-3:])
                raise UserError(f"Optuna could not be installed:{last}\n(all of it: {LOG}). Is there a network? Any Python that"
                                f" has it serves as well: python3 -m pip install -r {REQUIREMENTS}")  # fmt: skip

# SPDX-License-Identifier: MIT
"""Finds Optuna: in the Python that runs us, or in an environment of our own, created when
first needed.

Viewing a sweep, or running one with an installed ddprun, needs nothing of .venv (5 GB
with LibTorch): this environment is separate, 150 MB beside the build or in the user's
cache, and one command is enough in a fresh clone.
"""

import fcntl
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys

from ddprun.errors import UserError
from tooling.place import ROOT, kept

REQUIREMENTS = ROOT / "tools/lib/sweep/requirements.txt"
ENVIRONMENT = kept() / "sweep_env"
LOG = kept() / "pip_sweep.log"
MARK = "DDPRUN_SWEEP_ENV"  # in the environment of the Python that we have made


def require_packages():
    """Returns if the packages are there; otherwise continues in the Python of our own environment."""
    if has_packages():
        return
    if os.environ.get(MARK) == str(ENVIRONMENT):
        raise UserError(f"{ENVIRONMENT} is damaged: remove it, and call again")
    python = make_environment()
    os.execve(python, [str(python), "-B", *sys.argv], os.environ | {MARK: str(ENVIRONMENT)})


def has_packages():
    """Checks for the version of Optuna that this was written for."""
    wanted = wanted_version("optuna")
    try:
        found = importlib.metadata.version("optuna")
    except importlib.metadata.PackageNotFoundError:
        return False
    return found.split(".")[0] == wanted.split(".")[0]


def wanted_version(package):
    lines = REQUIREMENTS.read_text().splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{package}=="))


def make_environment():
    """Returns its Python. If called several times at once, one call creates it and the others wait."""
    python = ENVIRONMENT / "bin/python"
    stamp = ENVIRONMENT / ".complete"
    kept().mkdir(parents=True, exist_ok=True)
    with open(kept() / ".sweep_env_lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != identity():
            install(python)
            stamp.write_text(identity())
    return python


def identity():
    """Returns what it was made from, and where: its scripts contain its path."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    return f"{ENVIRONMENT}\n{sys.version}\n{digest}\n"


def install(python):
    print(f"sweep: installing Optuna into {shown(ENVIRONMENT)} (once; log: {shown(LOG)})", file=sys.stderr, flush=True)
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    pip = [python, "-m", "pip", "install", "--no-input", "--progress-bar", "off", "--disable-pip-version-check"]
    with open(LOG, "w") as log:
        for command in ([sys.executable, "-m", "venv", ENVIRONMENT], [*pip, "--requirement", REQUIREMENTS]):
            done = subprocess.run(
                list(map(str, command)), stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False
            )
            if done.returncode:
                refuse()


def shown(path):
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def refuse():
    lines = [line for line in LOG.read_text(errors="replace").splitlines() if line.strip()][-3:]
    raise UserError(
        "Optuna could not be installed:\n  "
        + "\n  ".join(line[:200] for line in lines)
        + f"\n(all of it: {LOG}). Is there a"
        f" network? Any Python that has it serves as well: python3 -m pip install -r {REQUIREMENTS}"
    )

# SPDX-License-Identifier: MIT
import json
import pathlib
import socket

from runs.config import read_config
from runs.lock import is_held, owner
from runs.user_error import UserError


class RunFolder:
    """What ddprun leaves of a run. It may be read at any time: files that are not there yet count as empty."""

    def __init__(self, path):
        path = pathlib.Path(path)
        self.path = path.resolve()
        if not self.path.is_dir():
            raise UserError(f"{path}: no such run")
        if not (self.path / "config.yaml").is_file():
            raise UserError(f"{path} is no run's folder: there is no config.yaml in it{self.hint()}")
        self.config = read_config(self.path / "config.yaml")

    def hint(self):
        inside = sorted(file.parent for file in self.path.glob("*/config.yaml"))
        return f"; did you mean {inside[-1]}?" if inside else ""

    @property
    def name(self):
        """As outputs/ has it: mnist/2026-11-20_12-00-00."""
        return f"{self.config.get('name', 'run')}/{self.path.name}"

    def summary(self):
        """Of the attempt that ended last; empty where none did."""
        try:
            value = json.loads((self.path / "summary.json").read_text())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def attempt(self):
        """The number of the newest, from 0; None where the folder does not tell."""
        try:
            return max(int((self.path / ".attempts").read_text()) - 1, 0)
        except (OSError, ValueError):
            return None

    def has_summary(self):
        """Whether the newest attempt wrote its summary.json."""
        summary = self.summary()
        return bool(summary) and self.attempt() in (None, summary.get("attempt", 0))

    def is_held(self):
        """Whether a ddprun holds the folder's lock; None where that cannot be told, as on some network file systems."""
        return is_held(self.path / ".lock")

    def was_started_here(self):
        """On this machine, whose locks are seen."""
        found = owner(self.path / ".lock")
        return found is not None and found[1] == socket.gethostname()

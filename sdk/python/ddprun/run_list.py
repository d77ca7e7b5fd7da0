# SPDX-License-Identifier: MIT
import os
import pathlib
import warnings

from ddprun.errors import UserError
from ddprun.run_folder import Run
from ddprun.terminal import printable

MOST_DEPTH = 6  # outputs/<sweep>/<name>/<time> is 3


def runs(folder="outputs"):
    """Returns the runs below a folder, the newest first, as `ddprun list` does."""
    folder = pathlib.Path(folder)
    root = folder.resolve()
    try:
        found = [Run(path) for path in run_folders(root, MOST_DEPTH)]
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}") from None
    return Runs(root, sorted(found, key=lambda run: (started(run), label(run, root)), reverse=True))


class Runs(list):
    """A list of runs, which a notebook shows as a table."""

    def __init__(self, folder, found):
        super().__init__(found)
        self.folder = folder

    def labels(self):
        """Their paths below the folder: "mnist/2026-11-20_12-00-00"."""
        return [label(run, self.folder) for run in self]

    def __repr__(self):
        lines = [f"{name}: {run.status}" for name, run in zip(self.labels(), self)]
        return printable("\n".join([f"<ddprun.Runs: {len(self)} in {self.folder}>", *lines]))

    def _repr_html_(self):
        from ddprun.notebook import runs_html

        return runs_html(self)


def run_folders(folder, depth):
    """Does not follow links such as `latest`, nor look for runs within another."""
    if os.path.lexists(folder / "config.yaml") and (folder / "logs").is_dir():
        return [folder]
    if depth == 0:
        return []
    with os.scandir(folder) as entries:
        inside = [pathlib.Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return [run for path in inside if may_enter(path) for run in run_folders(path, depth - 1)]


def may_enter(folder):
    if not (allowed := os.access(folder, os.R_OK | os.X_OK)):
        warnings.warn(printable(f"{folder} is left out: it cannot be read: Permission denied"), stacklevel=4)
    return allowed


def label(run, root):
    return str(run.path.relative_to(root)) if run.path != root else run.path.name


def started(run):
    try:
        time = run.started
    except UserError:  # its status says that it cannot be read
        return 0
    return time.timestamp() if time else 0

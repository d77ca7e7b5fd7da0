# SPDX-License-Identifier: MIT
import os
import pathlib
import warnings

from ddprun.config import flat
from ddprun.errors import UserError
from ddprun.rows import needed, number
from ddprun.run_folder import Run
from ddprun.terminal import printable

MOST_DEPTH = 6  # outputs/<sweep>/<name>/<time> is 3
MOST_IN_NAME = 3  # settings; where more differ, the folder's name tells better


def runs(*folders):
    """Returns the runs in and below these folders, by default "outputs": the newest first, as `ddprun list` does."""
    folders = [pathlib.Path(folder) for folder in folders or ("outputs",)]
    root = pathlib.Path(os.path.commonpath([folder.resolve() for folder in folders]))
    found = {}
    for folder in folders:
        try:
            found |= {path: Run(path) for path in run_folders(folder.resolve(), MOST_DEPTH)}
        except OSError as error:
            raise UserError(f"{folder}: {error.strerror}") from None
    return Runs(root, sorted(found.values(), key=lambda run: (started(run), label(run, root)), reverse=True))


class Runs(list):
    """A list of runs, as a slice of it is. A notebook shows it as a table."""

    def __init__(self, folder, found):
        super().__init__(found)
        self.folder = folder

    def labels(self):
        """Their paths below the folder: "mnist/2026-11-20_12-00-00"."""
        return [label(run, self.folder) for run in self]

    def __getitem__(self, place):
        found = super().__getitem__(place)
        return Runs(self.folder, found) if isinstance(place, slice) else found

    def frame(self):
        """Returns a pandas DataFrame with a row for each run: its status, what it measured at its best, and the settings
        that are not the same in all of them.
        """
        pandas = needed("pandas")
        summaries, differences = [summary_row(run) for run in self], self.differences()
        columns = dict.fromkeys(name for rows in (summaries, differences) for row in rows for name in row)
        rows = [summary | changed for summary, changed in zip(summaries, differences)]
        return pandas.DataFrame(rows, index=self.labels(), columns=list(columns))

    def plot(self, metric, x="step"):
        """Draws "val/accuracy" of each run that has it over "step", "epoch", "samples" or "time" with matplotlib. Returns
        the axes.
        """
        pyplot, curves = needed("matplotlib.pyplot"), self.curves(metric, x)
        axes = pyplot.subplots(layout="constrained")[1]
        for name, curve in curves.items():
            axes.plot(*curve, label=name)
        axes.set(xlabel=x, ylabel=metric)
        axes.legend()
        return axes

    def curves(self, metric, x):
        """Returns {name: ([x...], [y...])}. Warns of the runs that do not have it; fails if none has."""
        curves, refused = {}, []
        for name, run in zip(self.names(), self):
            try:
                curves[name] = run.curve(metric, x)
            except UserError as error:
                refused.append(str(error))
        if not curves:
            raise UserError(refused[0] if refused else f"there are no runs in {self.folder}")
        for text in refused:
            warnings.warn(printable(f"left out: {text}"), stacklevel=3)
        return curves

    def names(self):
        """Their names in a legend: the settings that differ, if these are few and tell all apart; otherwise their labels."""
        differences = self.differences()
        names = [", ".join(f"{key}={value}" for key, value in one.items()) for one in differences]
        few = all(0 < len(one) <= MOST_IN_NAME for one in differences)
        return names if few and len(set(names)) == len(names) else self.labels()

    def differences(self):
        """Returns for each run the settings that are not the same in all: [{"optimizer.lr": 0.1}, ...]."""
        settings = [settings_of(run) for run in self]
        readable = [one for one in settings if one]
        known = dict.fromkeys(key for one in readable for key in one)
        differ = [key for key in known if len({str(one.get(key)) for one in readable}) > 1]
        return [{key: one[key] for key in differ if key in one} for one in settings]

    def __repr__(self):
        lines = [f"{name}: {run.status}" for name, run in zip(self.labels(), self)]
        return printable("\n".join([f"<ddprun.Runs: {len(self)} in {self.folder}>", *lines]))

    def _repr_html_(self):
        from ddprun.notebook import runs_html

        return runs_html(self)


def summary_row(run):
    try:
        summary = run.summary
    except UserError:  # its status says that it cannot be read
        summary = {}
    best = {name: number(value) for name, value in (summary.get("best") or {}).items()}
    return {"status": run.status, "steps": summary.get("steps"), "seconds": summary.get("total_seconds")} | best


def settings_of(run):
    """Returns its experiment by full keys, without those that say where it is written; empty if it cannot be read."""
    try:
        config = run.config
    except UserError:
        return {}
    return {key: value for key, value in flat(config).items() if not key.startswith(("run.", "loggers."))}


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

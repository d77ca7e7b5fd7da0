# SPDX-License-Identifier: MIT
import json
import os
import pathlib
import warnings

from ddprun.errors import UserError
from ddprun.program import answer
from ddprun.rows import frame_html, needed, number
from ddprun.run_folder import Run, known_of
from ddprun.terminal import printable

MOST_IN_NAME = 3  # settings; where more differ, the folder's name says more


def runs(*folders):
    """Returns the runs in and below these folders, by default "outputs": those of `ddprun list`, the newest first."""
    folders = [pathlib.Path(folder).resolve() for folder in folders or ("outputs",)]
    listed = {one["path"]: one for folder in folders for one in json.loads(answer("list", "--json", folder))}
    newest = sorted(listed.values(), key=lambda one: (one["started"], one["path"]), reverse=True)
    return Runs(pathlib.Path(os.path.commonpath(folders)), [Run(one["path"]) for one in newest])


class Runs(list):
    """A list of runs, as a slice of it is. A notebook shows it as its DataFrame."""

    def __init__(self, folder, found):
        super().__init__(found)
        self.folder = folder

    def labels(self):
        """Their paths below the folder: "mnist/2026-11-20_12-00-00"."""
        return [str(run.path.relative_to(self.folder)) if run.path != self.folder else run.path.name for run in self]

    def __getitem__(self, place):
        found = super().__getitem__(place)
        return Runs(self.folder, found) if isinstance(place, slice) else found

    def frame(self):
        """Returns a pandas DataFrame with a row for each run: its status, what it measured at its best, and the settings
        that are not the same in all of them.
        """
        pandas, known = needed("pandas"), known_of(self)
        summaries, changes = [summary_row(one) for one in known], differences(known)
        columns = dict.fromkeys(name for rows in (summaries, changes) for row in rows for name in row)
        rows = [summary | changed for summary, changed in zip(summaries, changes)]
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
        """Their names in a legend: the settings that differ, if these are few and distinguish all; otherwise their labels."""
        changes = differences(known_of(self))
        names = [", ".join(f"{key}={value}" for key, value in one.items()) for one in changes]
        few = all(0 < len(one) <= MOST_IN_NAME for one in changes)
        return names if few and len(set(names)) == len(names) else self.labels()

    def __repr__(self):
        lines = [f"{name}: {known['status']}" for name, known in zip(self.labels(), known_of(self))]
        return printable("\n".join([f"<ddprun.Runs: {len(self)} in {self.folder}>", *lines]))

    def _repr_html_(self):
        return frame_html(self)


def summary_row(known):
    best = {name: number(value) for name, value in known.get("best", {}).items()}
    return {"status": known["status"], "steps": known.get("steps"), "seconds": known.get("seconds")} | best


def differences(known):
    """Returns for each run the settings that are not the same in all: [{"optimizer.lr": 0.1}, ...]."""
    settings = [settings_of(one) for one in known]
    readable = [one for one in settings if one]
    keys = dict.fromkeys(key for one in readable for key in one)
    differ = [key for key in keys if len({str(one.get(key)) for one in readable}) > 1]
    return [{key: one[key] for key in differ if key in one} for one in settings]


def settings_of(known):
    """Returns a run's experiment by full keys, without those that say where it is written; empty if it cannot be read."""
    config = known.get("config")
    settings = flat(config) if isinstance(config, dict) else {}
    return {key: value for key, value in settings.items() if not key.startswith(("run.", "loggers."))}


def flat(config, prefix=""):
    """Returns {"optimizer.lr": 0.1, "loggers.0.plugin": "console"}."""
    pairs = config.items() if isinstance(config, dict) else enumerate(config)
    values = {}
    for key, value in pairs:
        nested = isinstance(value, (dict, list)) and value
        values |= flat(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return values

# SPDX-License-Identifier: MIT
"""Names the curves by what differs between the experiments."""

import difflib

from ddprun.config import flat
from ddprun.errors import UserError

LEFT_OUT = ("run.", "loggers.")  # they say where a run is written, not what it is
MOST = 3  # settings in a label; where more differ, the folder's name tells better


def settings(run):
    return {key: value for key, value in flat(run.config).items() if not key.startswith(LEFT_OUT)}


def same_but_seed(run):
    """Returns a key that is equal for repetitions of a run."""
    return tuple(sorted((key, str(value)) for key, value in settings(run).items() if key != "seed"))


def label_runs(runs, keys=None):
    """Returns one text for each run: its given settings, or those that differ."""
    values = [settings(run) for run in runs]
    if keys:
        for key in keys:
            require(key, values)
    else:
        known = dict.fromkeys(key for one in values for key in one)
        keys = [key for key in known if len({str(one.get(key)) for one in values}) > 1]
        if not 0 < len(keys) <= MOST:
            return [run.path.name for run in runs]
    names = short_names(keys)
    labels = [", ".join(text(names[key], one[key]) for key in keys if one.get(key) is not None) for one in values]
    return [label or run.path.name for label, run in zip(labels, runs)]


def require(key, values):
    known = {name for one in values for name in one}
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
        hint = f" did you mean {near[0]}?" if near else ""
        raise UserError(f"--label {key}: no config.yaml of these runs has it;{hint} known: {', '.join(sorted(known))}")


def short_names(keys):
    """Returns the last word of each key if that tells them apart; a plugin by its kind."""
    last = {key: key.split(".")[-2 if key.endswith(".plugin") else -1] for key in keys}
    return {key: name if list(last.values()).count(name) == 1 else key for key, name in last.items()}


def text(name, value):
    """Shows names of plugins and experiments without their key."""
    if isinstance(value, bool):
        return f"{name} = {str(value).lower()}"
    return value if isinstance(value, str) and not value[:1].isdigit() else f"{name} = {value}"

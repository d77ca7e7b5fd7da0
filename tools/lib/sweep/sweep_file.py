# SPDX-License-Identifier: MIT
"""Reads a sweep file."""

import dataclasses
import inspect
import pathlib

import optuna

from ddprun.errors import UserError
from sweep.space import override_words, read_parameter
from sweep.yaml_node import read_yaml
from tooling.place import ROOT

REQUIRED = {
    "experiment": "experiments/digits.yaml",
    "metric": "{name: val/accuracy, goal: maximize}",
    "parameters": "{optimizer.lr: {low: 0.001, high: 0.1, log: true}}",
}
KEYS = (*REQUIRED, "name", "method", "seed", "pruner", "run_cap")
FORMER = {  # W&B's, and what takes their place
    "program": "experiment names it",
    "early_terminate": "pruner: {type: hyperband, min_resource: 1, max_resource: 9}, with Optuna's words",
    "sampler": "method: cmaes, or tpe",
}
METHODS = ("grid", "random", "tpe", "cmaes", "bayes")  # W&B's bayes is tpe
PRUNERS = {
    "median": optuna.pruners.MedianPruner,
    "asha": optuna.pruners.SuccessiveHalvingPruner,
    "hyperband": optuna.pruners.HyperbandPruner,
}
LEAST = {"reduction_factor": 2, "min_resource": 1, "max_resource": 1, "interval_steps": 1, "n_min_trials": 1}  # of others: 0
SPLITS = ("train", "val", "test")
MOST_GRID = 1_000_000  # trials


@dataclasses.dataclass
class Metric:
    name: str
    goal: str = "minimize"
    summary: str = "last"
    target: float | None = None

    @property
    def maximize(self):
        return self.goal == "maximize"

    def better(self, values):
        return max(values) if self.maximize else min(values)

    def final(self, values):
        return self.better(values) if self.summary == "best" else values[-1]

    def reached(self, value):
        return self.target is not None and self.better([value, self.target]) == value


@dataclasses.dataclass
class Sweep:
    file: pathlib.Path
    experiment: str
    name: str
    metric: Metric
    parameters: list
    method: str = "tpe"
    seed: int | None = None
    run_cap: int | None = None
    pruner: optuna.pruners.BasePruner | None = None
    last_iteration: int | None = None  # of a trial, where the pruner knows it

    @property
    def distributions(self):
        return {one.path: one.distribution for one in self.parameters}

    @property
    def searched(self):
        """Returns the parameters that differ between trials."""
        return [one for one in self.parameters if not one.distribution.single()]

    def size(self):
        """Returns how many different trials there are; None if they cannot be counted."""
        total = 1
        for parameter in self.parameters:
            if parameter.size is None:
                return None
            total *= parameter.size
        return total

    def cap(self):
        size = self.size()
        return self.run_cap if size is None else min(size, self.run_cap or size)

    def probe_rows(self):
        """Yields overrides that have, together, all values to be checked: the first of all parameters, the second, ..."""
        probes = {one.path: one.probes() for one in self.parameters}
        for i in range(max(map(len, probes.values()))):
            yield override_words({path: values[min(i, len(values) - 1)] for path, values in probes.items()})

    def identity(self, overrides):
        """Returns what must not change in a resumed sweep: its trials could not be compared."""
        spaces = {path: str(distribution) for path, distribution in self.distributions.items()}
        metric = {"metric": self.metric.name, "goal": self.metric.goal, "summary": self.metric.summary}
        return {"experiment": self.experiment, "overrides": sorted(overrides), "parameters": spaces} | metric


def find_sweep_file(text):
    """Returns the path as given, or in this clone's configs/."""
    for file in (pathlib.Path(text), ROOT / "configs" / text):
        if file.is_file():
            return file
    raise UserError(f"{text}: no such sweep file, here or in {ROOT / 'configs'}")


def read_sweep(file):
    root = read_yaml(file)
    keys = root.entries("the sweep", KEYS, FORMER)
    for key, example in REQUIRED.items():
        if key not in keys:
            root.refuse(f"{key}: missing: {example}")
    parameters = keys["parameters"].entries("parameters")
    if not parameters:
        keys["parameters"].refuse(f"parameters: there are none, as {REQUIRED['parameters']}")
    sweep = Sweep(
        file, keys["experiment"].typed("experiment", str), name=file.stem, metric=read_metric(keys["metric"]),
        parameters=[read_parameter(path, entry) for path, entry in parameters.items()])  # fmt: skip
    for key, (kind, least) in {"name": (str, None), "seed": (int, 0), "run_cap": (int, 1)}.items():
        if key in keys:
            setattr(sweep, key, keys[key].typed(key, kind, least))
    if "method" in keys:
        sweep.method = keys["method"].one_of("method", METHODS).replace("bayes", "tpe")
    if "pruner" in keys:
        read_pruner(sweep, keys["pruner"])
    check_space(sweep, keys["parameters"])
    return sweep


def read_metric(node):
    keys = node.entries("metric", ("name", "goal", "summary", "target"))
    if "name" not in keys:
        node.refuse("metric.name: missing: val/accuracy")
    metric = Metric(keys["name"].typed("metric.name", str))
    split, _, rest = metric.name.partition("/")
    if split not in SPLITS or not rest:
        expected = f"expected a split ({', '.join(SPLITS)}) and what it measures, as val/accuracy"
        keys["name"].refuse(f"metric.name: {metric.name}: {expected}")
    for key, words in {"goal": ("maximize", "minimize"), "summary": ("last", "best")}.items():
        if key in keys:
            setattr(metric, key, keys[key].one_of(f"metric.{key}", words))
    if "target" in keys:
        metric.target = keys["target"].typed("metric.target", (int, float))
    return metric


def read_pruner(sweep, node):
    """Gives the keys to Optuna's pruner of that type, as the words of its constructor."""
    keys = dict(node.entries("pruner"))
    if "type" not in keys:
        node.refuse(f"pruner.type: missing: one of {', '.join(PRUNERS)}")
    kind = PRUNERS[keys.pop("type").one_of("pruner.type", list(PRUNERS))]
    known = inspect.signature(kind).parameters
    node.entries("pruner", ["type", *known])
    options = {}
    for key, value in keys.items():
        is_auto = value.value == "auto" == known[key].default
        options[key] = "auto" if is_auto else value.typed(f"pruner.{key}", int, LEAST.get(key, 0))
    last, first = options.get("max_resource", "auto"), options.get("min_resource", 1)
    if last != "auto" and last < first:
        node.refuse(f"pruner: max_resource {last} is less than min_resource {first}")
    sweep.last_iteration = None if last == "auto" else last
    try:
        sweep.pruner = kind(**options)
    except ValueError as error:
        node.refuse(f"pruner: {error}")


def check_space(sweep, node):
    """Checks what only all parameters together show."""
    size = sweep.size()
    if sweep.method == "grid":
        for one in sweep.parameters:
            if one.size is None:
                one.node.refuse(f"{one.path}: a grid needs choices, or a step; the other methods take any range")
        if size > MOST_GRID:
            node.refuse(f"the grid has {size:,} trials: list fewer values, or take method: random with a run_cap")
    elif not sweep.run_cap and size is None:
        node.refuse(f"run_cap: missing: how many trials; {sweep.method} has no end of its own")
    if sweep.method == "cmaes" and (len(sweep.searched) < 2 or any(one.has_choices for one in sweep.searched)):
        node.refuse("method cmaes searches ranges, two or more, and no choices; tpe takes all")

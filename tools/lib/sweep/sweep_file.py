# SPDX-License-Identifier: MIT
"""Reads a sweep file: W&B's keys, and a few more."""

import dataclasses
import hashlib
import json
import os
import pathlib

from ddprun.errors import UserError
from ddprun.terminal import has_control
from sweep.early_stop import EarlyStop, read_early_stop
from sweep.parameter import read_parameters
from sweep.problems import Problems
from sweep.yaml_node import read_yaml
from tooling.place import ROOT

# The same file drives `wandb sweep` too; nothing here asks for these.
OF_WANDB = ("project", "entity", "description", "command")
KEYS = (
    "experiment",
    "program",
    "name",
    "method",
    "sampler",
    "seed",
    "metric",
    "parameters",
    "early_terminate",
    "run_cap",
)
METHODS = ("grid", "random", "bayes")
SAMPLERS = ("tpe", "cmaes")
GOALS = ("maximize", "minimize")
SPLITS = ("train", "val", "test")
MOST_NAME = 128  # bytes
NO_FOLDER_NAME = f"expected the name of a folder, up to {MOST_NAME} bytes without / and no leading dot"


@dataclasses.dataclass
class Metric:
    name: str = ""
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
    experiment: str = ""
    name: str = ""
    method: str = ""
    sampler: str = "tpe"
    seed: int | None = None
    metric: Metric = dataclasses.field(default_factory=Metric)
    parameters: list = dataclasses.field(default_factory=list)
    early_stop: EarlyStop | None = None
    run_cap: int | None = None

    @property
    def searched(self):
        """Returns the parameters that differ between trials."""
        return [one for one in self.parameters if not one.fixed]

    def size(self):
        """Returns how many different trials there are; None if they cannot be counted."""
        total = 1
        for parameter in self.parameters:
            if parameter.space.size is None:
                return None
            total *= parameter.space.size
        return total

    def cap(self):
        size = self.size()
        return self.run_cap if size is None else min(size, self.run_cap or size)

    def identity(self, overrides):
        """Returns what must not change in a resumed sweep: its trials could not be compared."""
        space = {one.path: repr(one.space) for one in self.parameters}
        fixed = [self.experiment, self.metric.name, self.metric.goal, self.metric.summary, sorted(overrides)]
        digest = hashlib.sha256(json.dumps([fixed, space], sort_keys=True).encode()).hexdigest()[:16]
        words = {one.path: str(one.space) for one in self.parameters}
        about = {"experiment": self.experiment, "parameters": words, "overrides": overrides, "digest": digest}
        return about | {"metric": self.metric.name, "goal": self.metric.goal, "summary": self.metric.summary}


def find_sweep_file(text):
    """Returns the path as given, or in this clone's configs/."""
    for file in (pathlib.Path(text), ROOT / "configs" / text):
        if file.is_file():
            return file
    raise UserError(f"{text}: no such sweep file, here or in {ROOT / 'configs'}")


def read_sweep(file):
    root = read_yaml(file)
    problems = Problems(file)
    keys = {key: node for key, node in problems.entries(root, "the sweep", (*KEYS, *OF_WANDB)) if key not in OF_WANDB}
    sweep = Sweep(file, name=file.stem)
    read_experiment(sweep, keys, root, problems)
    read_method(sweep, keys, root, problems)
    if "metric" in keys:
        read_metric(sweep, keys["metric"], problems)
    else:
        problems.add(root, "metric: missing: {name: val/accuracy, goal: maximize}")
    if "parameters" in keys:
        sweep.parameters = read_parameters(keys["parameters"], problems)
        if not sweep.parameters and not problems.lines:
            problems.add(keys["parameters"], "parameters: there are none")
    else:
        problems.add(root, "parameters: missing: {optimizer.lr: {min: 0.001, max: 0.1}}")
    if "early_terminate" in keys:
        sweep.early_stop = read_early_stop(keys["early_terminate"], problems)
    if not problems.lines:
        check_size(sweep, keys, root, problems)
    problems.refuse()
    return sweep


def read_experiment(sweep, keys, root, problems):
    if "experiment" in keys and "program" in keys:
        problems.add(keys["program"], "program and experiment say the same: one of them is enough")
    node = keys.get("experiment") or keys.get("program")
    if node is None:
        return problems.add(
            root, "experiment: missing: experiments/digits.yaml (`program`, as W&B calls it, serves too)"
        )
    sweep.experiment = problems.typed(node, "experiment", str)
    if "name" in keys:
        sweep.name = problems.typed(keys["name"], "name", str)
        if sweep.name and not is_folder_name(sweep.name):
            problems.add(keys["name"], f"name: {NO_FOLDER_NAME}, found {json.dumps(sweep.name)}")


def is_folder_name(text):
    """Checks the name by the rule of ddprun's experiments."""
    plain = "/" not in text and not has_control(text)
    return plain and 0 < len(os.fsencode(text)) <= MOST_NAME and not text.startswith(".")


def read_method(sweep, keys, root, problems):
    if "method" in keys:
        sweep.method = problems.one_of(keys["method"], "method", METHODS)
    else:
        problems.add(root, f"method: missing: one of {', '.join(METHODS)}")
    if "sampler" in keys:
        sweep.sampler = problems.one_of(keys["sampler"], "sampler", SAMPLERS)
        if sweep.method != "bayes":
            problems.add(keys["sampler"], "sampler: is for method bayes")
    if "seed" in keys:
        sweep.seed = problems.typed(keys["seed"], "seed", int, 0)
    if "run_cap" in keys:
        sweep.run_cap = problems.typed(keys["run_cap"], "run_cap", int, 1)


def read_metric(sweep, node, problems):
    keys = dict(problems.entries(node, "metric", ("name", "goal", "target", "summary")))
    metric = sweep.metric
    if "name" in keys:
        metric.name = problems.typed(keys["name"], "metric.name", str) or ""
        split, _, rest = metric.name.partition("/")
        if metric.name and (split not in SPLITS or not rest):
            splits = ", ".join(SPLITS)
            problems.add(
                keys["name"],
                f"metric.name: {metric.name}: expected a split ({splits}) and what it measures, as val/accuracy",
            )
    else:
        problems.add(node, "metric.name: missing: val/accuracy")
    if "goal" in keys:
        metric.goal = problems.one_of(keys["goal"], "metric.goal", GOALS)
    if "summary" in keys:
        metric.summary = problems.one_of(keys["summary"], "metric.summary", ("last", "best"))
    if "target" in keys:
        metric.target = problems.typed(keys["target"], "metric.target", (int, float))


def check_size(sweep, keys, root, problems):
    if sweep.method == "grid":
        for one in sweep.parameters:
            if one.space.size is None:
                text = "a grid needs values, or a range of steps (q_uniform); method random or bayes takes any range"
                problems.add(one, f"{one.path}: {text}")
        size = sweep.size() or 0
        if size > 1_000_000 and not sweep.run_cap:
            problems.add(root, f"the grid has {size:,} trials: set run_cap, or list fewer values")
    elif not sweep.run_cap and sweep.size() is None:
        problems.add(root, f"run_cap: missing: how many trials; {sweep.method} has no end of its own")
    if sweep.method == "bayes" and not sweep.searched:
        problems.add(keys["parameters"], "parameters: all of them are constant: there is nothing to search")

# SPDX-License-Identifier: MIT
"""Reads `parameters:`. Each is a distribution of Optuna's: {low, high, log, step}, or {choices}."""

import dataclasses
import json
import math
import sys
import warnings

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from ddprun.terminal import printable
from sweep.yaml_node import Node

KEYS = ("low", "high", "log", "step", "choices")
SAME = {"min": "low", "max": "high", "values": "choices"}  # W&B's words for them; its `value` is a single choice
FORMER = {
    "distribution": "low and high, with log: true or a step; the values are whole where low, high and step are",
    "q": "step counts from low",
    "mu": "low and high, evenly or with log: true",
    "sigma": "low and high, evenly or with log: true",
    "probabilities": "all choices are equally likely",
    "parameters": "write the whole path as the key, as model.hidden",
}
MOST = 10**15  # whole numbers beyond are none in a study


@dataclasses.dataclass(frozen=True)
class Parameter:
    path: str  # "optimizer.lr"
    node: Node
    distribution: CategoricalDistribution | FloatDistribution | IntDistribution

    @property
    def has_choices(self):
        return isinstance(self.distribution, CategoricalDistribution)

    @property
    def size(self):
        """Returns the number of values; None if they cannot be counted."""
        if self.has_choices:
            return len(self.distribution.choices)
        low, high, step = self.distribution.low, self.distribution.high, self.distribution.step
        return round((high - low) / step) + 1 if step else 1 if low == high else None

    def probes(self):
        """Returns the values to be checked before the first trial: all choices, or both ends."""
        return list(self.distribution.choices) if self.has_choices else [self.distribution.low, self.distribution.high]


def read_parameter(path, entry):
    keys = {SAME.get(word, word): node for word, node in entry.entries(path, (*KEYS, *SAME, "value"), FORMER).items()}
    if "value" in keys:
        keys["choices"] = dataclasses.replace(keys["value"], value=[keys.pop("value")])
    if "choices" in keys:
        if len(keys) > 1:
            entry.refuse(f"{path}: choices stand alone, without {', '.join(keys.keys() - {'choices'})}")
        return Parameter(path, entry, made(CategoricalDistribution, path, entry, choices=read_choices(path, keys["choices"])))
    if "low" not in keys or "high" not in keys:
        entry.refuse(f"{path}: expected choices: [a, b], or low and high")
    log = "log" in keys and keys.pop("log").typed(f"{path}.log", bool)
    numbers = {key: read_number(f"{path}.{key}", node) for key, node in keys.items()}
    kind = IntDistribution if all(isinstance(value, int) for value in numbers.values()) else FloatDistribution
    return Parameter(path, entry, made(kind, path, entry, log=log, **numbers))


def read_choices(path, node):
    if not isinstance(node.value, list) or not node.value:
        node.refuse(f"{path}.choices: expected a list of at least one value, as [0.1, 0.01]")
    values = []
    for item in node.value:
        value = json.dumps(item.plain()) if isinstance(item.value, (list, dict)) else item.value  # as a study can hold it
        if value in values:
            item.refuse(f"{path}.choices: {value} is there twice")
        values.append(value)
    return values


def read_number(what, node):
    value = node.typed(what, (int, float))
    if abs(value) > MOST if isinstance(value, int) else not math.isfinite(value):
        node.refuse(f"{what}: expected a number, up to {MOST:.0e} if it is whole, found {value}")
    return value


def made(kind, path, entry, **options):
    """Returns the distribution. What Optuna refuses or remarks is reported with the file's line."""
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        try:
            distribution = kind(**options)
        except ValueError as error:
            entry.refuse(f"{path}: {error}")
    for remark in remarks:
        print(printable(f"sweep: warning: {entry.file}:{entry.line}: {path}: {remark.message}"), file=sys.stderr, flush=True)
    return distribution


def override_words(params):
    """Returns {path: value} as ddprun's command line takes it."""
    return [f"{path}={override_text(value)}" for path, value in params.items()]


def override_text(value):
    """What begins like a list, a map or a quoted text is YAML for ddprun, everything else is literal."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, str):
        return value if is_structure(value) or value and value[0] not in "[{\"' " else json.dumps(value)
    return repr(value)


def is_structure(text):
    try:
        return isinstance(json.loads(text), (list, dict))
    except ValueError:
        return False


def value_text(value):
    """Shows a value to somebody: five digits are enough."""
    if isinstance(value, float):
        return f"{value:.5g}"
    return "" if value is None else override_text(value)

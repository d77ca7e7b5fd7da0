# SPDX-License-Identifier: MIT
"""Reads an entry of `parameters:`, in W&B's format."""

import dataclasses
import math

from sweep.space import DEVIATIONS, Choice, Range, held

DISTRIBUTIONS = {  # the keys that each of them needs
    "constant": ("value",),
    "categorical": ("values",),
    "categorical_w_probabilities": ("values", "probabilities"),
    "int_uniform": ("min", "max"),
    "uniform": ("min", "max"),
    "q_uniform": ("min", "max"),
    "log_uniform": ("min", "max"),
    "log_uniform_values": ("min", "max"),
    "q_log_uniform": ("min", "max"),
    "q_log_uniform_values": ("min", "max"),
    "normal": ("mu", "sigma"),
    "q_normal": ("mu", "sigma"),
    "log_normal": ("mu", "sigma"),
    "q_log_normal": ("mu", "sigma"),
}
KEYS = ("value", "values", "probabilities", "distribution", "min", "max", "mu", "sigma", "q", "parameters")
MOST = 1e15  # whole numbers beyond are none


@dataclasses.dataclass(frozen=True)
class Parameter:
    path: str  # "optimizer.lr"
    line: int
    space: Choice | Range

    @property
    def fixed(self):
        return self.space.size == 1


def read_parameters(node, problems, prefix=""):
    """Reads all entries; a nested `parameters:` makes paths longer."""
    found = []
    for name, entry in problems.entries(node, f"parameters{prefix and '.'}{prefix}"):
        path = f"{prefix}.{name}" if prefix else name
        keys = dict(problems.entries(entry, path, KEYS))
        if "parameters" in keys:
            found += read_parameters(keys["parameters"], problems, path)
        elif keys and (space := read_space(path, entry, keys, problems)):
            found.append(Parameter(path, entry.line, space))
        elif not keys:
            problems.add(entry, f"{path}: expected value, values, or min and max")
    return found


def read_space(path, entry, keys, problems):
    """Returns None if something is wrong with it, which is then already reported."""
    kind = chosen_distribution(keys)
    if kind not in DISTRIBUTIONS:
        return problems.unknown(keys["distribution"], f"{path}: distribution", kind, DISTRIBUTIONS)
    if missing := [key for key in DISTRIBUTIONS[kind] if key not in keys]:
        return problems.add(
            entry, f"{path}: {kind} needs {' and '.join(DISTRIBUTIONS[kind])}; there is no {missing[0]}"
        )
    allowed = {"distribution", *DISTRIBUTIONS[kind], *(["q"] if kind.startswith("q_") else [])}
    if extra := [key for key in keys if key not in allowed]:
        return problems.add(
            keys[extra[0]], f"{path}.{extra[0]}: does not go with {kind}, which has {', '.join(sorted(allowed))}"
        )
    if kind == "constant":
        return read_constant(path, keys["value"], problems)
    if kind.startswith("categorical"):
        return read_choice(path, keys, problems)
    return read_range(path, kind, entry, keys, problems)


def chosen_distribution(keys):
    if "distribution" in keys:
        return str(keys["distribution"].value)
    if "value" in keys:
        return "constant"
    if "values" in keys:
        return "categorical_w_probabilities" if "probabilities" in keys else "categorical"
    if "mu" in keys or "sigma" in keys:
        return "normal"
    whole = all(isinstance(keys[key].value, int) for key in ("min", "max") if key in keys)
    return "int_uniform" if whole and "q" not in keys else "q_uniform" if "q" in keys else "uniform"


def read_constant(path, node, problems):
    return Choice((held(node.plain()),))


def read_choice(path, keys, problems):
    node = keys["values"]
    if not isinstance(node.value, list) or not node.value:
        return problems.add(node, f"{path}.values: expected a list of at least one value, as [0.1, 0.01]")
    values = [held(item.plain()) for item in node.value]
    for i, value in enumerate(values):
        if any(value == other for other in values[:i]):
            return problems.add(node.value[i], f"{path}.values: {value} is there twice")
    weights = ()
    if "probabilities" in keys:
        weights = keys["probabilities"].plain()
        good = (
            isinstance(weights, list)
            and len(weights) == len(values)
            and all(is_number(one) and one >= 0 for one in weights)
        )
        if not good or not math.isclose(sum(weights), 1, abs_tol=1e-6):
            return problems.add(
                keys["probabilities"], f"{path}.probabilities: expected {len(values)} numbers whose sum is 1"
            )
    return Choice(tuple(values), tuple(weights))


def read_range(path, kind, entry, keys, problems):
    numbers = {key: keys[key].value for key in ("min", "max", "mu", "sigma", "q") if key in keys}
    for key, value in numbers.items():
        if not is_number(value):
            return problems.add(keys[key], f"{path}.{key}: expected a number, found {value}")
    if numbers.get("sigma", 1) <= 0 or numbers.get("q", 1) <= 0:
        key = "sigma" if numbers.get("sigma", 1) <= 0 else "q"
        return problems.add(keys[key], f"{path}.{key}: must be more than 0, found {numbers[key]}")
    bell = kind.endswith("normal")
    low, high = ends(numbers, bell)
    log = "log" in kind
    if low > high:
        return problems.add(entry, f"{path}: the range is empty: min {low} is more than max {high}")
    if log and not kind.endswith("_values"):
        ends_as_written = f"{low} .. {high}"
        low, high = math.exp(min(low, 700)), math.exp(min(high, 700))
        if "uniform" in kind and numbers["min"] > 0:
            problems.warn(
                entry,
                f"{path}: {kind} takes exponents of e, as W&B's does, so that its values are {low:.4g} .. {high:.4g}; "
                f"for values of {ends_as_written} use {kind}_values",
            )
    if log and low <= 0:
        return problems.add(entry, f"{path}: {kind} needs min above 0, found {low}")
    return whole_range(path, kind, Range(low, high, log, bell=bell), numbers, entry, problems)


def ends(numbers, bell):
    if not bell:
        return numbers["min"], numbers["max"]
    spread = DEVIATIONS * numbers["sigma"]
    return numbers["mu"] - spread, numbers["mu"] + spread


def whole_range(path, kind, space, numbers, entry, problems):
    """Returns it with its step, its ends moved to multiples of it."""
    low, high = space.low, space.high
    if kind == "int_uniform":
        if any(value != int(value) or abs(value) > MOST for value in (low, high)):
            return problems.add(entry, f"{path}: int_uniform needs whole numbers, found {low} .. {high}")
        return dataclasses.replace(space, low=int(low), high=int(high), step=1)
    step = numbers.get("q", 1) if kind.startswith("q_") else None
    if step is None:
        return (
            Choice((space.near(float(low)),))
            if low == high
            else dataclasses.replace(space, low=float(low), high=float(high))
        )
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if space.log:
        first = max(first, 1)
    if first > last:
        return problems.add(entry, f"{path}: the range {low} .. {high} holds no multiple of q {step}")
    exact = (lambda value: value) if isinstance(step, int) else (lambda value: float(f"{value:.12g}"))
    return dataclasses.replace(space, low=exact(first * step), high=exact(last * step), step=step)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)

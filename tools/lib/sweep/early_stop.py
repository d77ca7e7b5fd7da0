# SPDX-License-Identifier: MIT
"""Decides which trials end early (`early_terminate:`)."""

import dataclasses

import optuna

TYPES = ("hyperband", "asha", "median")
KEYS = {
    "hyperband": ("min_iter", "max_iter", "s", "eta"),
    "asha": ("min_iter", "eta"),
    "median": ("min_iter", "min_trials"),
}


@dataclasses.dataclass
class EarlyStop:
    """Prunes by iterations; one is one value of the metric, such as one evaluation for val/accuracy."""

    type: str
    min_iter: int = 1
    max_iter: int | None = None
    eta: int = 3
    min_trials: int = 5

    def may_end(self, iteration):
        """Returns whether a trial may end early; one at max_iter may finish, since nothing would be saved."""
        return self.max_iter is None or iteration < self.max_iter

    def pruner(self):
        if self.type == "median":
            return optuna.pruners.MedianPruner(n_startup_trials=self.min_trials, n_warmup_steps=self.min_iter)
        if self.type == "asha":
            return optuna.pruners.SuccessiveHalvingPruner(min_resource=self.min_iter, reduction_factor=self.eta)
        return optuna.pruners.HyperbandPruner(
            min_resource=self.min_iter, max_resource=self.max_iter or "auto", reduction_factor=self.eta
        )


def read_early_stop(node, problems):
    all_keys = sorted({"type", *sum(KEYS.values(), ())})
    keys = dict(problems.entries(node, "early_terminate", all_keys))
    if "type" not in keys:
        return problems.add(node, f"early_terminate.type: missing: one of {', '.join(TYPES)}")
    kind = problems.one_of(keys.pop("type"), "early_terminate.type", TYPES)
    if kind is None:
        return None
    least = {"eta": 2}
    values = {}
    for key, value in keys.items():
        if key not in KEYS[kind]:
            problems.add(value, f"early_terminate.{key}: does not go with {kind}, which has {', '.join(KEYS[kind])}")
        else:
            values[key] = problems.typed(value, f"early_terminate.{key}", int, least.get(key, 1))
    if None in values.values():
        return None
    brackets = values.pop("s", None)
    if brackets and "max_iter" in values and "min_iter" not in values:  # as W&B has it: max_iter / eta^s is the first
        values["min_iter"] = max(1, values["max_iter"] // values.get("eta", 3) ** brackets)
    elif brackets:
        return problems.add(keys["s"], "early_terminate.s: is counted from max_iter, in the place of min_iter")
    early = EarlyStop(kind, **values)
    if early.max_iter and early.max_iter < early.min_iter:
        return problems.add(node, f"early_terminate: max_iter {early.max_iter} is less than min_iter {early.min_iter}")
    return early

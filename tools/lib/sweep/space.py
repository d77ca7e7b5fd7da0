# SPDX-License-Identifier: MIT
"""The values of a parameter: one of several, or a number in a range."""

import dataclasses
import json
import math

import optuna

DIGITS = 6  # of a number that was drawn: enough to search with, short enough to read
DEVIATIONS = 3  # where a normal distribution is cut off


@dataclasses.dataclass(frozen=True)
class Choice:
    """Values as a study holds them: see `held`."""

    values: tuple
    weights: tuple = ()

    def __str__(self):
        return ", ".join(map(override_text, self.values))

    @property
    def size(self):
        return len(self.values)

    def probes(self):
        return list(self.values)

    def all_values(self):
        return list(self.values)

    def distribution(self):
        return optuna.distributions.CategoricalDistribution(self.values)

    def draw(self, random):
        return random.choices(self.values, self.weights or None)[0]

    def near(self, value):
        return value


@dataclasses.dataclass(frozen=True)
class Range:
    """A range with both ends. With a step, the values are its multiples; `bell`: normal around the middle, cut off at
    the ends."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    bell: bool = False

    def __str__(self):
        step = [] if self.step is None else ["whole"] if self.step == 1 else [f"multiples of {self.step}"]
        return ", ".join([f"{self.low} .. {self.high}", *["log"] * self.log, *["normal"] * self.bell, *step])

    @property
    def integer(self):
        return isinstance(self.low, int) and isinstance(self.high, int) and isinstance(self.step, int)

    @property
    def size(self):
        """Returns the number of values; None if they cannot be counted."""
        return round((self.high - self.low) / self.step) + 1 if self.step else None

    def probes(self):
        return [self.low, self.high]

    def all_values(self):
        return [self.near(self.low + i * self.step) for i in range(self.size)]

    def distribution(self):
        if self.integer:
            if not self.log or self.step == 1:
                return optuna.distributions.IntDistribution(self.low, self.high, log=self.log, step=self.step)
            return optuna.distributions.IntDistribution(self.low, self.high, log=True)
        step = None if self.log else self.step
        return optuna.distributions.FloatDistribution(self.low, self.high, log=self.log, step=step)

    def draw(self, random):
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        if self.bell:
            value = math.inf
            while not low <= value <= high:
                value = random.gauss((low + high) / 2, (high - low) / 2 / DEVIATIONS)
        elif self.step and not self.log:
            return self.near(self.low + random.randrange(self.size) * self.step)
        else:
            value = random.uniform(low, high)
        return self.near(math.exp(value) if self.log else value)

    def near(self, value):
        """Returns the nearest value that belongs to it."""
        if self.step:
            value = round(value / self.step) * self.step
        value = round(value) if self.integer else float(f"{value:.{12 if self.step else DIGITS}g}")
        return min(max(value, self.low), self.high)


def held(value):
    """Returns the value as a study can hold it: lists and maps as their text."""
    return json.dumps(value) if isinstance(value, (list, dict)) else value


def override_text(value):
    """Reads a value like ddprun's command line: what begins like a list, a map or a quoted text is YAML, everything else
    is literal.
    """
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

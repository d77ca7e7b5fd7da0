# SPDX-License-Identifier: MIT
"""How a column becomes the targets of a training."""

import decimal

import numpy

from ddprun import UserError
from table_arrays.table import number_in, require_distinct, tidy

CLASSIFICATION, REGRESSION = "classification", "regression"


def loses_digits(numbers):
    """Returns whether there are whole numbers that float32 does not hold."""
    numbers = numpy.asarray(numbers, numpy.float64)
    return bool(((numbers == numbers.round()) & (numbers.astype(numpy.float32) != numbers)).any())


class Target:
    """Classes, values, or arrays of numbers. `pairs` are (place, value), of each row."""

    def __init__(self, pairs, task):
        self.pairs, self.task, self.names, self.numbers = pairs, task, None, None
        kinds = {type(value) for _, value in self.plain()}
        if list in kinds:
            self.task = None
        elif self.task != REGRESSION:
            self.find_classes(kinds)

    def plain(self):
        """Yields (place, value) where a value is an int, a float, a list or a name."""
        for place, value in self.pairs:
            if isinstance(value, (bool, numpy.bool_)):
                value = str(value)
            elif isinstance(value, str):
                name = tidy(value)
                value = number_in(name)
                value = name if value is None else value
            elif isinstance(value, decimal.Decimal):
                value = float(value)
            elif not isinstance(value, (int, float, list)):
                raise UserError(f"{place}: the target is a {type(value).__name__}: expected a number, a name or a list of numbers")
            yield place, value

    def find_classes(self, kinds):
        names = kinds & {str}
        if names and kinds != names and self.task is None:
            place, name = next((place, value) for place, value in self.plain() if isinstance(value, str))
            raise UserError(f"{place}: the target is {name!r}, and others are numbers: --task classification takes all of them as names")
        found = {value for _, value in self.plain()}
        if not names and float in kinds:
            if self.task == CLASSIFICATION:
                raise UserError(f"the target holds {min(value for value in found if isinstance(value, float))}: expected whole numbers or names as classes")
            self.task = REGRESSION
            return
        ordered = sorted(found, key=lambda value: (isinstance(value, str), value))
        if not names and ordered != list(range(len(ordered))):
            self.refuse_gaps(ordered)
        if names or self.task == CLASSIFICATION:
            self.names = [str(value) for value in ordered]
            require_distinct(self.names, "the classes")
        self.numbers = {value: number for number, value in enumerate(ordered)}

    def refuse_gaps(self, found):
        if len(found) == 1:
            raise UserError(f"the target is {found[0]} in all rows: there is nothing to learn; --target names another column")
        if self.task is None:
            raise UserError(
                f"the target holds {len(found):,} different whole numbers from {found[0]} to {found[-1]}, which are not those from 0 on: "
                f"--task classification makes them the classes 0 to {len(found) - 1}, --task regression takes them as values"
            )

    def encoded(self, account):
        """Returns int64 of classes, float32 of values."""
        if self.numbers is not None:
            return numpy.array([self.numbers[value] for _, value in self.plain()], numpy.int64)
        if self.task == REGRESSION:
            values = [(place, self.value_of(place, value)) for place, value in self.plain()]
            for place, value in values:
                if loses_digits(value):
                    account.change("digits of the target that float32 does not hold", place)
            return numpy.array([value for _, value in values], numpy.float32)[:, None]
        return stacked(self.pairs)

    @staticmethod
    def value_of(place, value):
        if not isinstance(value, (int, float)) or not abs(value) <= float(numpy.finfo(numpy.float32).max):
            raise UserError(f"{place}: the target is {value!r}: expected a number that float32 holds")
        return value

    def told(self, targets):
        if self.numbers is None:
            return f"targets {targets.dtype} of {' x '.join(map(str, targets.shape[1:]))}"
        if not self.names:
            return f"{len(self.numbers)} classes"
        shown = ", ".join(f"{number} {name}" for number, name in enumerate(self.names[:10]))
        return f"{len(self.names)} classes: {shown}{' ...' if len(self.names) > 10 else ''}"


def stacked(pairs):
    """Returns what lists of whole numbers hold as int64, and others as float32."""
    arrays = []
    for place, value in pairs:
        try:
            array = numpy.array(value)
            array = array.astype(numpy.int64 if array.dtype.kind in "biu" else numpy.float32)
        except (TypeError, ValueError):
            raise UserError(f"{place}: the target {value!r:.80} is no array of numbers") from None
        if not numpy.isfinite(array).all():
            raise UserError(f"{place}: the target {value!r:.80} holds what is no number, or too large for float32")
        if arrays and (array.shape, array.dtype) != (arrays[0].shape, arrays[0].dtype):
            raise UserError(f"{place}: the target is {array.dtype} of {array.shape}, and those before are {arrays[0].dtype} of {arrays[0].shape}")
        arrays.append(array)
    return numpy.stack(arrays)

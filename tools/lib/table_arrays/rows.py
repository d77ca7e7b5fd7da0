# SPDX-License-Identifier: MIT
"""Makes arrays of a table's rows, and tells what it holds that they do not."""

import re

import numpy

from ddprun import UserError
from table_arrays.table import number_in, open_table, require_distinct, tidy
from table_arrays.targets import Target, loses_digits

TARGETS = ("target", "label", "class", "y", "outcome")  # what a column that is to be learned is often called
ROW_NUMBERS = re.compile(r"(Unnamed: \d+|__index_level_\d+__)?")  # the columns that pandas adds, whose names say nothing
MOST_TOLD = 12  # columns in a message
MOST_LISTED = 40  # columns to be typed as they stand there
MISSING = ("", "na", "n/a", "nan", "null", "none")  # how tables write that there is no number


class Account:
    """What a table holds and its arrays do not, or not as it was: with what was used, that is all there is."""

    def __init__(self):
        self.left_out, self.changed, self.notes = {}, {}, []

    def leave_out(self, what, place):
        self.count(self.left_out, what, place)

    def change(self, what, place):
        self.count(self.changed, what, place)

    def note(self, text):
        self.notes.append(text)

    @staticmethod
    def count(found, what, place):
        before, first = found.get(what, (0, place))
        found[what] = (before + 1, first)

    def line(self, text):
        """Returns "TEXT; left out: empty lines: 2, the first is a.csv:3"."""
        parts = [text, *self.notes]
        for title, found in (("left out", self.left_out), ("changed", self.changed)):
            parts += [f"{title}: {what}: {number:,}, the first is {place}" for what, (number, place) in found.items()]
        return "; ".join(parts)


def arrays_of(options):
    """Returns {"input": array, "target": array}, the names of the classes, or None, and a line to be told."""
    account = Account()
    table = open_table(options.table, account)
    target = options.target or guessed_target(table, account)
    columns = options.input or inputs_of(table, target)
    if target in columns:
        raise UserError(f"--input {target}: it is the target: a network would learn to copy it; --target names another")
    require_distinct(columns, "--input")
    for column in [*columns, target]:
        if column not in table.columns:
            raise UserError(f"{table.path}: there is no column {column}; there are {', '.join(table.columns)}")
    unused = [name for name in table.columns if name not in columns and name != target]
    if unused:
        account.note(f"columns left out: {', '.join(unused)}")
    rows = Rows(table, columns, target, account)
    inputs, targets = rows.read(options.drop_missing)
    learned = Target(targets, options.task)
    arrays = {"input": numpy.stack(inputs), "target": learned.encoded(account)}
    shape = " x ".join(map(str, arrays["input"].shape[1:]))
    told = f"{table.path}: {len(inputs):,} of {rows.seen:,} rows, inputs of {shape}, {learned.told(arrays['target'])}"
    return arrays, learned.names, account.line(told)


def guessed_target(table, account):
    """Returns the column that is called a target, or the last one; and has that told."""
    if not table.columns:
        raise UserError(f"{table.path}: it has no columns")
    called = [name for name in table.columns if name.lower() in TARGETS]
    target = called[0] if len(called) == 1 else table.columns[-1]
    account.note(f"the target is {target}, {'by its name' if len(called) == 1 else 'the last column'}; --target names another")
    return target


def inputs_of(table, target):
    """Returns all columns but the target. Refuses the numbers of rows."""
    for number, column in enumerate(table.columns, 1):
        if ROW_NUMBERS.fullmatch(column):
            raise UserError(
                f"{table.path}: the column {column or f'{number} has no name: it'} may be the rows' numbers, which pandas writes "
                "(to_csv(index=False) does not): leave it out, or name the columns with --input"
            )
    return [name for name in table.columns if name != target]


class Rows:
    def __init__(self, table, columns, target, account):
        self.table, self.columns, self.target, self.account, self.seen = table, columns, target, account, 0

    def all(self):
        """Yields (place, row) of the columns that are used."""
        return self.table.rows([*self.columns, self.target])

    def read(self, drop_missing):
        """Returns the inputs of each row, float32, and (place, target)."""
        inputs, targets = [], []
        for place, row in self.all():
            self.seen += 1
            value, problem = self.numbers_of(row, place)
            if not problem and missing(row[self.target]):
                problem = f"the column {self.target} is empty"
            if problem and not drop_missing:
                raise UserError(f"{place}: {problem}{self.all_missing()}; --drop-missing leaves such rows out")
            if problem:
                self.account.leave_out("rows with a missing value", place)
                continue
            if inputs and value.shape != inputs[0].shape:
                raise UserError(f"{place}: it has {value.shape} numbers, and the rows before have {inputs[0].shape}")
            inputs.append(value)
            targets.append((place, row[self.target]))
            if has_blanks(row[self.target]):
                self.account.change("blanks at the ends of names of classes", place)
        if inputs and not inputs[0].size:
            raise UserError(f"{self.table.path}: there are no numbers in it but the target")
        if not inputs:
            raise UserError(f"{self.table.path}: it has no rows" + (" without missing values" if self.seen else ""))
        return inputs, targets

    def columns_with(self, is_so):
        """Returns {column: in how many rows}, and the number of rows where no column is so."""
        found, others = {}, 0
        for _, row in self.all():
            here = [name for name in [*self.columns, self.target] if is_so(name, row[name])]
            others += not here
            for name in here:
                found[name] = found.get(name, 0) + 1
        return found, others

    def all_missing(self):
        """Returns where else values are missing, behind the first; empty if there is but one."""
        found, whole = self.columns_with(lambda name, value: missing(value) if name == self.target else is_missing(value))
        if sum(found.values()) < 2:
            return ""
        shown = ", ".join(f"{name} in {count:,}" for name, count in sorted(found.items(), key=lambda one: -one[1])[:MOST_TOLD])
        return f"; values are missing in {len(found)} column{'s' * (len(found) > 1)}: {shown} rows, and {whole:,} rows are whole"

    def all_words(self):
        """Returns what to do about columns of words, naming all."""
        found, _ = self.columns_with(lambda name, value: name != self.target and is_word(value))
        rest = [name for name in self.columns if name not in found]
        shown = ", ".join(list(found)[:MOST_TOLD])
        told = f"columns of words: {shown}; " if len(found) > 1 else ""
        if not rest:
            return told + "no column of numbers is left; turn words into numbers first (pandas.get_dummies)"
        listed = ",".join(rest) if len(rest) <= MOST_LISTED else f"{rest[0]},{rest[1]},..."
        return f"{told}--input '{listed}' names the columns of numbers; or turn words into numbers first (pandas.get_dummies)"

    def numbers_of(self, row, place):
        """Returns the inputs of a row, or None and what is missing."""
        parts = []
        for name in self.columns:
            try:
                part = numpy.asarray(number(row[name]), numpy.float64)
            except (TypeError, ValueError, OverflowError):
                raise UserError(f"{place}: the column {name} holds {row[name]!r:.80}, which is no number; {self.all_words()}") from None
            with numpy.errstate(over="ignore"):
                narrow = part.astype(numpy.float32)
            if not numpy.isfinite(narrow).all():
                return None, f"the column {name} holds {row[name]!r:.80}, expected numbers that float32 holds"
            if loses_digits(part):
                self.account.change(f"digits of the column {name} that float32 does not hold", place)
            parts.append(narrow)
        if len(parts) == 1 and parts[0].ndim:
            return parts[0], None
        return numpy.concatenate([numpy.empty(0, numpy.float32), *(part.reshape(-1) for part in parts)]), None


def number(value):
    """Returns a number, or a list of such; not a number for what is missing."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if "_" in text:
        raise ValueError("Python would read 1_000")
    return float("nan" if text.lower() in MISSING else text)


def is_word(value):
    try:
        numpy.asarray(number(value), numpy.float64)
        return False
    except (TypeError, ValueError, OverflowError):
        return True


def is_missing(value):
    """Returns whether an input has no number that float32 holds."""
    try:
        with numpy.errstate(over="ignore"):
            return not numpy.isfinite(numpy.asarray(number(value), numpy.float64).astype(numpy.float32)).all()
    except (TypeError, ValueError, OverflowError):
        return False


def missing(value):
    return value is None or value != value or isinstance(value, str) and value.strip().lower() in ("", "nan")


def has_blanks(value):
    """Returns whether it is a name, and no number, that is not tidy."""
    return isinstance(value, str) and tidy(value) != value and number_in(tidy(value)) is None

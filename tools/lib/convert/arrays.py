# SPDX-License-Identifier: MIT
"""Writes the columns of tables as arrays, for the dataset `tensors`."""

import numpy
from safetensors.numpy import save_file

from ddprun import UserError
from convert.account import Account
from convert.names import has_blanks, require_distinct
from convert.tables import Table, is_table
from convert.targets import Target, loses_digits

TARGETS = ("target", "label", "class", "y", "outcome")  # what a column that is to be learned is often called
MOST_TOLD = 12  # columns in a message
MOST_LISTED = 40  # columns to be typed as they stand there
MISSING = ("", "na", "n/a", "nan", "null", "none")  # how tables write that there is no number


def convert(splits, output, options):
    """Returns a line to be told for each split."""
    columns, target, lines = options.input, None, []
    for split, path in splits.items():
        if not is_table(path):
            raise UserError(f"{path}: expected a .parquet, .csv or .tsv file, or a folder of such")
        account = Account()
        table = Table(path, account)
        if not options.target:
            options.target = guessed_target(table, account)
        columns = columns or [name for name in table.all_columns() if name != options.target]
        if options.target in columns:
            raise UserError(f"--input {options.target}: it is the target: a network would learn to copy it; --target names another")
        require_distinct(columns, "--input")
        table.choose([*columns, options.target])
        for part in table.parts:
            unused = [name for name in part.columns if name not in table.columns]
            if unused:
                account.note(f"columns left out: {', '.join(unused)}")
        rows = Rows(table, columns, options, account)
        inputs, targets = rows.read(output, split)
        target = target or Target(split, targets, options.task, table.names.get(options.target))
        found = {"input": numpy.stack(inputs), "target": target.encoded(targets, account)}
        save_file(found, output.file(f"{split}.safetensors"))
        shape = " x ".join(map(str, found["input"].shape[1:]))
        lines.append(account.line(f"{split}: {len(inputs):,} of {rows.seen:,} rows, inputs of {shape}, {target.told(found['target'])}"))
    if target.names:
        output.write_json("classes.json", target.names)
    return lines


def guessed_target(table, account):
    """Returns the column that is called a target, or the last one; and has that told."""
    columns = table.parts[0].columns
    called = [name for name in columns if name.lower() in TARGETS]
    target = called[0] if len(called) == 1 else columns[-1]
    account.note(f"the target is {target}, {'by its name' if len(called) == 1 else 'the last column'}; --target names another")
    return target


class Rows:
    def __init__(self, table, columns, options, account):
        self.table, self.columns, self.options, self.account, self.seen = table, columns, options, account, 0

    def read(self, output, split):
        """Returns the inputs of each row, float32, and (place, target)."""
        inputs, targets = [], []
        for place, row in self.table.rows():
            self.seen += 1
            output.progress(f"{split}: {self.seen:,} rows")
            value, problem = self.numbers_of(row, place)
            if not problem and missing(row[self.options.target]):
                problem = f"the column {self.options.target} is empty"
            if problem and not self.options.drop_missing:
                raise UserError(f"{place}: {problem}{self.all_missing()}; --drop-missing leaves such rows out")
            if problem:
                self.account.leave_out("rows with a missing value", place)
                continue
            if inputs and value.shape != inputs[0].shape:
                raise UserError(f"{place}: it has {value.shape} numbers, and the rows before have {inputs[0].shape}")
            inputs.append(value)
            targets.append((place, row[self.options.target]))
            if has_blanks(row[self.options.target]):
                self.account.change("blanks at the ends of names of classes", place)
        if inputs and not inputs[0].size:
            raise UserError(f"{self.table.path}: there are no numbers in it but the target")
        if not inputs:
            raise UserError(f"{self.table.path}: it has no rows" + (" without missing values" if self.seen else ""))
        return inputs, targets

    def columns_with(self, is_so):
        """Returns {column: in how many rows}, and the number of rows where no column is so."""
        found, others = {}, 0
        for _, row in self.table.rows():
            here = [name for name in [*self.columns, self.options.target] if is_so(name, row[name])]
            others += not here
            for name in here:
                found[name] = found.get(name, 0) + 1
        return found, others

    def all_missing(self):
        """Returns where else values are missing, behind the first; empty if there is but one."""
        found, whole = self.columns_with(lambda name, value: missing(value) if name == self.options.target else is_missing(value))
        if sum(found.values()) < 2:
            return ""
        shown = ", ".join(f"{name} in {count:,}" for name, count in sorted(found.items(), key=lambda one: -one[1])[:MOST_TOLD])
        return f"; values are missing in {len(found)} column{'s' * (len(found) > 1)}: {shown} rows, and {whole:,} rows are whole"

    def all_words(self):
        """Returns what to do about columns of words, naming all."""
        found, _ = self.columns_with(lambda name, value: name != self.options.target and is_word(value))
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

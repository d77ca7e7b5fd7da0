# SPDX-License-Identifier: MIT
"""Makes arrays of a table's rows, and says what it holds that they do not."""

import re

import numpy

from ddprun import UserError
from table_arrays.table import number_in, open_table, require_distinct

TARGETS = ("target", "label", "class", "y", "outcome")  # what a column that is to be learned is often called
ROW_NUMBERS = re.compile(r"(Unnamed: \d+|__index_level_\d+__)?")  # the columns that pandas adds, whose names say nothing
WHOLE_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*)")
NAMED_NUMBER = re.compile(r"0[0-9]+")  # 007 is the name of a class
WORDS = {"true": 1.0, "false": 0.0} | dict.fromkeys(("", "na", "n/a", "nan", "null", "none"), float("nan"))  # of numbers in tables
MOST_SHOWN = 12  # columns in a message
MOST_LISTED = 40  # columns to be typed as they stand there
LARGEST = float(numpy.finfo(numpy.float32).max)


def arrays_of(options):
    """Returns {"input": array, "target": array}, the names of the classes, or None, and a line about them."""
    table = open_table(options.table)
    target, choice = chosen_target(table, options.target)
    columns = options.input or inputs_of(table, target)
    if target in columns:
        raise UserError(f"--input {target}: it is the target: a network would learn to copy it; --target names another")
    for column in [*columns, target]:
        if column not in table.columns:
            raise UserError(f"{table.path}: there is no column {column}; there are {', '.join(table.columns)}")
    rows = Rows(table, columns, target)
    inputs, targets = rows.read(options.drop_missing)
    learned, names, kind = encoded(targets, options.task)
    unused = [name for name in table.columns if name not in columns and name != target]
    notes = [
        f"{table.path}: {len(inputs):,} of {rows.seen:,} rows, inputs of {len(columns)}, {kind}",
        *choice, *table.notes(), *rows.notes(), *([f"columns left out: {', '.join(unused)}"] if unused else []),
    ]  # fmt: skip
    return {"input": numpy.stack(inputs), "target": learned}, names, "; ".join(notes)


def chosen_target(table, named):
    """Returns the column that is named, is called a target, or is the last one; and what is said of the choice."""
    if not table.columns:
        raise UserError(f"{table.path}: it has no columns")
    if named:
        return named, []
    called = [name for name in table.columns if name.lower() in TARGETS]
    target, why = (called[0], "by its name") if len(called) == 1 else (table.columns[-1], "the last column")
    return target, [f"the target is {target}, {why}; --target names another"]


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
    """What is wrong is counted by columns, and refused once all rows have been seen."""

    def __init__(self, table, columns, target):
        self.table, self.columns, self.target = table, columns, target
        self.words, self.missing = {}, {}  # by column: the place and the text of the first word; how many rows miss it
        self.seen, self.first_gap = 0, ""

    def read(self, drop_missing):
        """Returns the inputs of each row that is whole, float32, and (place, target)."""
        inputs, targets = [], []
        at = [self.table.columns.index(name) for name in self.columns]
        target = self.table.columns.index(self.target)
        for place, row in self.table.rows():
            self.seen += 1
            numbers = [self.number(place, name, row[i]) for name, i in zip(self.columns, at, strict=True)]
            gaps = [name for name, number in zip(self.columns, numbers, strict=True) if not abs(number) <= LARGEST]
            gaps += [self.target] if row[target].lower() in ("", "nan") else []
            if gaps:
                self.note_gaps(place, gaps, row)
            else:
                inputs.append(numpy.array(numbers, numpy.float32))
                targets.append((place, row[target]))
        self.refuse(inputs, drop_missing)
        return inputs, targets

    def number(self, place, name, text):
        number = WORDS.get(text.lower(), number_in(text))
        if number is None:
            self.words.setdefault(name, f"{place}: the column {name} holds {text!r:.80}, which is no number")
        return 0.0 if number is None else number

    def note_gaps(self, place, gaps, row):
        text = row[self.table.columns.index(gaps[0])]
        self.first_gap = self.first_gap or f"{place}: the column {gaps[0]} holds {text!r:.80}, expected a value that float32 holds"
        for name in gaps:
            self.missing[name] = self.missing.get(name, 0) + 1

    def refuse(self, inputs, drop_missing):
        if not self.columns:
            raise UserError(f"{self.table.path}: there are no numbers in it but the target")
        if self.words:
            raise UserError(f"{next(iter(self.words.values()))}; {self.all_words()}")
        if self.missing and not drop_missing:
            worst = sorted(self.missing.items(), key=lambda one: -one[1])[:MOST_SHOWN]
            shown = ", ".join(f"{name} in {count:,}" for name, count in worst)
            raise UserError(f"{self.first_gap}; values are missing in {shown} rows, and {len(inputs):,} rows are whole; --drop-missing leaves such rows out")
        if not inputs:
            raise UserError(f"{self.table.path}: it has no rows" + (" without missing values" if self.seen else ""))
        self.left_out = self.seen - len(inputs)

    def all_words(self):
        """Returns what to do about columns of words, naming all."""
        rest = [name for name in self.columns if name not in self.words]
        found = f"columns of words: {', '.join(list(self.words)[:MOST_SHOWN])}; "
        if not rest:
            return found + "no column of numbers is left; turn words into numbers first (pandas.get_dummies)"
        listed = ",".join(rest) if len(rest) <= MOST_LISTED else f"{rest[0]},{rest[1]},..."
        return f"{found}--input '{listed}' names the columns of numbers; or turn words into numbers first (pandas.get_dummies)"

    def notes(self):
        return [f"left out: rows with a missing value: {self.left_out}"] if self.left_out else []


def encoded(targets, task):
    """Returns int64 of classes with their names, if these say something, or float32 of values; and what they are."""
    texts = {text for _, text in targets}
    words = {text for text in texts if number_in(text) is None or NAMED_NUMBER.fullmatch(text)}
    whole = all(WHOLE_NUMBER.fullmatch(text) for text in texts)
    if task is None and words and len(words) < len(texts):
        place, text = next((place, text) for place, text in targets if text in words)
        raise UserError(f"{place}: the target is {text!r}, and others are numbers: --task classification takes all of them as names")
    if task == "regression" or task is None and not words and not whole:
        return values_of(targets), None, "targets of one value"
    if not words and not whole:
        raise UserError("the target holds numbers that are not whole: expected whole numbers or names as classes")
    ordered = sorted(texts) if words else sorted(texts, key=int)
    if task is None and not words:
        require_classes([int(text) for text in ordered])
    require_distinct(ordered, "the classes")
    numbers = {text: number for number, text in enumerate(ordered)}
    named = ordered if words or task else None
    shown = ", ".join(f"{number} {name}" for number, name in enumerate(ordered[:10]))
    kind = f"{len(ordered)} classes" + (f": {shown}{' ...' if len(ordered) > 10 else ''}" if named else "")
    return numpy.array([numbers[text] for _, text in targets], numpy.int64), named, kind


def require_classes(found):
    """Refuses whole numbers that may be classes or values."""
    if len(found) == 1:
        raise UserError(f"the target is {found[0]} in all rows: there is nothing to learn; --target names another column")
    if found != list(range(len(found))):
        raise UserError(
            f"the target holds {len(found):,} different whole numbers from {found[0]} to {found[-1]}, which are not those from 0 on: "
            f"--task classification makes them the classes 0 to {len(found) - 1}, --task regression takes them as values"
        )


def values_of(targets):
    for place, text in targets:
        if number_in(text) is None or not abs(number_in(text)) <= LARGEST:
            raise UserError(f"{place}: the target is {text}: expected a number that float32 holds")
    return numpy.array([number_in(text) for _, text in targets], numpy.float32)[:, None]

# SPDX-License-Identifier: MIT
"""Reads tables of any kind as rows."""

import contextlib
import csv
import re

from ddprun import UserError
from convert.names import number_in, require_distinct, tidy
from convert.sources import TABLES, ending, files_of, has_files, text_lines

MARKS = ",;\t|"  # what separates the columns of a .csv file
MOST_TEXT = 1 << 30  # characters of one value
ROW_NUMBERS = re.compile(r"(Unnamed: \d+|__index_level_\d+__)?")  # the columns that pandas adds, whose names say nothing


def is_table(path):
    return ending(path) in TABLES or is_saved(path) or has_files(path, TABLES)


def is_saved(path):
    """Returns whether it is what save_to_disk() of the package datasets writes."""
    return (path / "dataset_info.json").is_file()


class Table:
    """The rows of a source: dictionaries of the named columns, in order."""

    def __init__(self, path, account, columns=None):
        self.path = path
        self.parts = [Saved(path)] if is_saved(path) else [part_of(file, account) for file in files_of(path, TABLES, account)]
        for part in self.parts:
            require_distinct(part.columns, f"{part.path}: the columns")
        self.columns = columns
        self.choose(columns or [])

    @property
    def names(self):
        """Returns {column: names of its classes}, of the columns that say what their numbers mean."""
        return self.parts[0].names

    def choose(self, columns):
        """From now on, rows have these columns."""
        for part in self.parts:
            for column in columns:
                if column not in part.columns:
                    raise UserError(f"{part.path}: there is no column {column}; there are {', '.join(part.columns)}")
        self.columns = columns

    def all_columns(self):
        """Returns the columns that all parts have. Refuses numbers of rows, and parts that differ."""
        first = self.parts[0]
        for number, column in enumerate(first.columns, 1):
            if ROW_NUMBERS.fullmatch(column):
                raise UserError(
                    f"{first.path}: the column {column or f'{number} has no name: it'} may be the rows' numbers, which pandas writes "
                    "(to_csv(index=False) does not): leave it out, or name the columns with --input"
                )
        for part in self.parts[1:]:
            differing = set(part.columns) ^ set(first.columns)
            if differing:
                raise UserError(f"{part.path} and {first.path} have different columns: only one has {min(differing)}")
        return first.columns

    def rows(self):
        """Yields (place, row)."""
        for part in self.parts:
            yield from part.rows(self.columns)


def part_of(file, account):
    return Parquet(file) if ending(file) == ".parquet" else Csv(file, account)


# A part is a file, or what takes its place. It has columns, a list, and names, {column: its classes}; rows(columns) yields (place, row).


class Csv:
    """Its rows have all columns, whichever are asked for."""

    names = {}

    def __init__(self, path, account):
        self.path, self.account = path, account
        first = next(text_lines(path, newline=""), "")
        counts = {mark: len(next(csv.reader([first], delimiter=mark), [])) for mark in MARKS}
        self.mark = max(counts, key=counts.get)  # the first of equals: a comma
        if self.mark != ",":
            account.note(f"{path}: its columns are separated by {self.mark!r}")
        self.columns = [tidy(name) for name in next(self.records(), (0, []))[1]]
        numbers = [number_in(name) for name in self.columns]
        if None not in numbers and numbers != list(range(len(numbers))):
            raise UserError(f"{path}: its first line holds numbers, expected the names of the columns")

    def records(self):
        """Yields (the line at which it begins, its values)."""
        csv.field_size_limit(MOST_TEXT)
        reader = csv.reader(text_lines(self.path, newline=""), delimiter=self.mark, strict=True)
        begin = 1
        try:
            for values in reader:
                yield begin, values
                begin = reader.line_num + 1
        except csv.Error as error:
            told = "a quote that is opened here is not closed" if "unexpected end" in str(error) else str(error)
            raise UserError(f"{self.path}:{begin}: {told}") from None

    def rows(self, columns):
        records = self.records()
        next(records, None)
        for line, values in records:
            place = f"{self.path}:{line}"
            if not values:
                self.account.leave_out("empty lines", place)
                continue
            if len(values) != len(self.columns):
                raise UserError(f"{place}: it has {len(values)} values, and the first line names {len(self.columns)} columns")
            yield place, dict(zip(self.columns, values, strict=True))


class Parquet:
    names = {}

    def __init__(self, path):
        self.path = path
        with self.readable() as file:
            self.columns = file.schema_arrow.names

    @contextlib.contextmanager
    def readable(self):
        import pyarrow.parquet

        try:
            yield pyarrow.parquet.ParquetFile(self.path)
        except (pyarrow.ArrowException, OSError) as error:
            raise UserError(f"{self.path}: {str(error).splitlines()[0]}") from None

    def rows(self, columns):
        with self.readable() as file:
            number = 0
            for batch in file.iter_batches(batch_size=256, columns=columns):
                for row in batch.to_pylist():
                    yield f"{self.path}: row {number}", row
                    number += 1


class Saved:
    """What save_to_disk() of the package datasets has written."""

    def __init__(self, path):
        self.path = path
        with contextlib.redirect_stdout(None):
            from datasets import Image, load_from_disk
        try:
            saved = load_from_disk(str(path))
        except Exception as error:  # of the formats beneath
            raise UserError(f"{path}: datasets cannot load it: {type(error).__name__}: {str(error).strip().splitlines()[0]}") from None
        self.names = {name: feature.names for name, feature in saved.features.items() if hasattr(feature, "names")}
        for name, feature in saved.features.items():
            if isinstance(feature, Image):
                saved = saved.cast_column(name, Image(decode=False))  # pictures as the bytes that they are
        self.saved, self.columns = saved, list(saved.column_names)

    def rows(self, columns):
        for number, row in enumerate(self.saved.select_columns(columns)):
            yield f"{self.path}: row {number}", row

# SPDX-License-Identifier: MIT
"""Reads a table of any kind as texts. It has a path, columns, a list, and rows(), which yields (place, the texts of a row)."""

import collections
import contextlib
import csv

from ddprun import UserError

MARKS = ",;\t|"  # what separates the columns of a .csv file
MOST_TEXT = 1 << 30  # characters of one value


def open_table(path):
    """Refuses pipes and devices, whose end may never come, and columns that are called alike."""
    if not path.is_file():
        raise UserError(f"{path}: it is not a file" if path.exists() else f"{path}: no such file")
    table = Parquet(path) if path.suffix.lower() == ".parquet" else Csv(path)
    require_distinct(table.columns, f"{path}: the columns")
    return table


class Csv:
    def __init__(self, path):
        self.path, self.empty = path, 0
        first = next(text_lines(path), "")
        counts = {mark: len(next(csv.reader([first], delimiter=mark), [])) for mark in MARKS}
        self.mark = max(counts, key=counts.get)  # the first of equals: a comma
        self.columns = [tidy(name) for name in next(self.records(), (0, []))[1]]
        numbers = [number_in(name) for name in self.columns]
        if None not in numbers and numbers != list(range(len(numbers))):
            raise UserError(f"{path}: its first line holds numbers, expected the names of the columns")

    def notes(self):
        """Returns what is said of it, once its rows have been read."""
        notes = [] if self.mark == "," else [f"its columns are separated by {self.mark!r}"]
        return notes + ([f"left out: empty lines: {self.empty}"] if self.empty else [])

    def records(self):
        """Yields (the line at which it begins, its values)."""
        csv.field_size_limit(MOST_TEXT)
        reader = csv.reader(text_lines(self.path), delimiter=self.mark, strict=True)
        begin = 1
        try:
            for values in reader:
                yield begin, values
                begin = reader.line_num + 1
        except csv.Error as error:
            problem = "a quote that is opened here is not closed" if "unexpected end" in str(error) else str(error)
            raise UserError(f"{self.path}:{begin}: {problem}") from None

    def rows(self):
        records = self.records()
        next(records, None)
        for line, values in records:
            if not values:
                self.empty += 1
            elif len(values) != len(self.columns):
                raise UserError(f"{self.path}:{line}: it has {len(values)} values, and the first line names {len(self.columns)} columns")
            else:
                yield f"{self.path}:{line}", [tidy(value) for value in values]


class Parquet:
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

    def notes(self):
        return []

    def rows(self):
        number = 0
        with self.readable() as file:
            for batch in file.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    yield f"{self.path}: row {number}", ["" if row[name] is None else tidy(str(row[name])) for name in self.columns]
                    number += 1


def text_lines(path):
    """Yields the lines of a file in UTF-8, with or without the mark at its beginning."""
    with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            if "\0" in line:
                raise UserError(f"{path}:{number}: there is a zero byte in it: expected a text in UTF-8 (iconv -f UTF-16 -t UTF-8 converts)")
            if not line.isascii() and any("\udc80" <= one <= "\udcff" for one in line):
                raise UserError(f"{path}:{number}: it is not UTF-8 (iconv -f LATIN1 -t UTF-8 converts, if that is what it is)")
            yield line


def tidy(text):
    """Returns a name or value without blanks and marks of an encoding at its ends."""
    return text.strip().strip("\ufeff\u200b")


def require_distinct(names, where):
    """Refuses names that are equal, or differ in blanks or case alone."""
    alike = collections.defaultdict(list)
    for name in names:
        alike[" ".join(name.casefold().split())].append(name)
    for one, *others in alike.values():
        if others:
            how = "come twice" if one == others[0] else "differ in blanks or case alone"
            raise UserError(f"{where}: {one!r} and {others[0]!r} {how}: rename one")


def number_in(text):
    """Returns the number that a text is, and None for a word. 1_000 is a word."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None

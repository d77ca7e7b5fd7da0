# SPDX-License-Identifier: MIT
"""Reads a table of any kind as rows. It has a path, columns, a list, and rows(columns), which yields (place, {column: value})."""

import contextlib
import csv
import re
import unicodedata

from ddprun import UserError

MARKS = ",;\t|"  # what separates the columns of a .csv file
MOST_TEXT = 1 << 30  # characters of one value


def open_table(path, account):
    """Refuses pipes and devices, whose end may never come, and columns that are called alike."""
    if not path.is_file():
        raise UserError(f"{path}: it is not a file" if path.exists() else f"{path}: no such file")
    table = Parquet(path) if path.suffix.lower() == ".parquet" else Csv(path, account)
    require_distinct(table.columns, f"{path}: the columns")
    return table


class Csv:
    """Its rows have all columns, whichever are asked for."""

    def __init__(self, path, account):
        self.path, self.account = path, account
        first = next(text_lines(path), "")
        counts = {mark: len(next(csv.reader([first], delimiter=mark), [])) for mark in MARKS}
        self.mark = max(counts, key=counts.get)  # the first of equals: a comma
        if self.mark != ",":
            account.note(f"its columns are separated by {self.mark!r}")
        self.columns = [tidy(name) for name in next(self.records(), (0, []))[1]]
        numbers = [number_in(name) for name in self.columns]
        if None not in numbers and numbers != list(range(len(numbers))):
            raise UserError(f"{path}: its first line holds numbers, expected the names of the columns")

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


def text_lines(path):
    """Yields the lines of a file in UTF-8, with or without the mark at its beginning."""
    with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            if "\0" in line:
                raise UserError(f"{path}:{number}: there is a zero byte in it: expected a text in UTF-8 (iconv -f UTF-16 -t UTF-8 converts)")
            foreign = next((one for one in line if "\udc80" <= one <= "\udcff"), None) if not line.isascii() else None
            if foreign:
                raise UserError(
                    f"{path}:{number}: it is not UTF-8: the byte 0x{ord(foreign) - 0xDC00:02X} is no part of it "
                    "(iconv -f LATIN1 -t UTF-8 converts, if that is what it is)"
                )
            yield line


def tidy(name):
    """Returns the name of a column or class without blanks at its ends, in the composed form of Unicode."""
    return unicodedata.normalize("NFC", name).strip().strip("\ufeff\u200b")


def require_distinct(names, where):
    """Refuses names that are equal, or differ in blanks, case or the form of Unicode alone."""
    seen = {}
    for name in names:
        alike = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
        if alike in seen:
            other = seen[alike]
            how = "come twice" if other == name else "differ in blanks, case or the form of Unicode alone"
            raise UserError(f"{where}: {other!r} and {name!r} {how}: rename one")
        seen[alike] = name


def number_in(text):
    """Returns the int or float that a text is; None if it is none. 007 is a name."""
    if re.fullmatch(r"[+-]?(0|[1-9][0-9]*)", text):
        return int(text)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text) and not re.fullmatch(r"[+-]?0[0-9]+", text):
        return float(text)
    return {"nan": float("nan"), "inf": float("inf"), "infinity": float("inf"), "-inf": float("-inf")}.get(text.lower())

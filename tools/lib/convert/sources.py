# SPDX-License-Identifier: MIT
"""Reads tables of any kind as rows, and folders of pictures."""

import contextlib
import csv
import pathlib

from ddprun import UserError

SPLITS = ("train", "val", "test")
OTHER_NAMES = {"validation": "val", "valid": "val"}  # of Hugging Face's data sets
TABLES = (".parquet", ".csv")


def splits_in(word):
    """Returns {split: path} of a source that has its splits in it; {"train": path} if it has none."""
    path = pathlib.Path(word)
    inside = {}
    for entry in sorted(path.iterdir()) if path.is_dir() else ():
        split = OTHER_NAMES.get(entry.name, entry.name)
        if entry.is_dir() and split in SPLITS:
            inside[split] = entry
    return inside or {"train": path}


def is_table(path):
    return path.suffix in TABLES or is_saved(path) or path.is_dir() and bool(files_of(path, TABLES))


def is_saved(path):
    """Returns whether it is what save_to_disk() of the package datasets writes."""
    return (path / "dataset_info.json").is_file()


def files_of(path, suffixes):
    return sorted(file for file in path.iterdir() if file.suffix in suffixes)


class Table:
    """The rows of a source: dictionaries of the named columns, in order."""

    def __init__(self, path, columns=None):
        self.path = path
        self.parts = parts_of(path)
        self.columns = columns or self.parts[0].columns()
        for part in self.parts:
            part.require(self.columns)

    @property
    def names(self):
        """Returns {column: names of its classes}, of the columns that say what their numbers mean."""
        return self.parts[0].names

    def only(self, column):
        """Returns the table of this column alone."""
        return Table(self.path, [column])

    def rows(self):
        """Yields (place, row)."""
        for part in self.parts:
            for number, row in enumerate(part.rows(self.columns)):
                yield f"{part.path}: row {number}", row


def parts_of(path):
    if is_saved(path):
        return [Saved(path)]
    files = [path] if path.is_file() else files_of(path, TABLES)
    if not files:
        raise UserError(f"{path}: there is no .parquet or .csv file in it")
    return [Csv(file) if file.suffix == ".csv" else Parquet(file) for file in files]


class Part:
    """A file, or what takes its place: it has columns(), a list, and rows(columns)."""

    names = {}

    def __init__(self, path):
        self.path = path

    def require(self, columns):
        there = self.columns()
        for column in columns:
            if column not in there:
                raise UserError(f"{self.path}: there is no column {column}; there are {', '.join(there)}")


class Csv(Part):
    """Its rows have all columns, whichever are asked for."""

    def columns(self):
        with open(self.path, newline="", encoding="utf-8") as lines:
            return next(csv.reader(lines), [])

    def rows(self, columns):
        with open(self.path, newline="", encoding="utf-8") as lines:
            reader = csv.DictReader(lines)
            for row in reader:
                if None in row or None in row.values():
                    raise UserError(f"{self.path}:{reader.line_num}: it has not as many values as the first line")
                yield row


class Parquet(Part):
    def opened(self):
        import pyarrow.parquet

        try:
            return pyarrow.parquet.ParquetFile(self.path)
        except pyarrow.ArrowInvalid as error:
            raise UserError(f"{self.path}: {str(error).splitlines()[0]}") from None

    def columns(self):
        return self.opened().schema_arrow.names

    def rows(self, columns):
        for batch in self.opened().iter_batches(batch_size=256, columns=columns):
            yield from batch.to_pylist()


class Saved(Part):
    """What save_to_disk() of the package datasets has written."""

    def __init__(self, path):
        super().__init__(path)
        with contextlib.redirect_stdout(None):
            from datasets import Image, load_from_disk
        saved = load_from_disk(str(path))
        self.names = {name: feature.names for name, feature in saved.features.items() if hasattr(feature, "names")}
        for name, feature in saved.features.items():
            if isinstance(feature, Image):
                saved = saved.cast_column(name, Image(decode=False))  # pictures as the bytes that they are
        self.saved = saved

    def columns(self):
        return list(self.saved.column_names)

    def rows(self, columns):
        return self.saved.select_columns(columns)

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
    """The rows of a source: dictionaries of the named columns, in order. `where(n)` names the row in messages."""

    def __init__(self, path, columns=None):
        self.path, self.names = path, {}
        self.files = [] if is_saved(path) else [path] if path.is_file() else files_of(path, TABLES)
        if is_saved(path):
            with contextlib.redirect_stdout(None):
                from datasets import load_from_disk

            self.saved = load_from_disk(str(path))
            self.names = {name: feature.names for name, feature in self.saved.features.items() if hasattr(feature, "names")}
        elif not self.files:
            raise UserError(f"{path}: there is no .parquet or .csv file in it")
        self.columns = columns or self.columns_of(self.files[0] if self.files else None)
        self.require()

    def columns_of(self, file):
        if file is None:
            return list(self.saved.column_names)
        if file.suffix == ".csv":
            with open(file, newline="", encoding="utf-8") as lines:
                return next(csv.reader(lines), [])
        import pyarrow.parquet

        return opened(file, pyarrow).schema_arrow.names

    def require(self):
        for file in self.files or [None]:
            there = self.columns_of(file)
            for column in self.columns:
                if column not in there:
                    raise UserError(f"{file or self.path}: there is no column {column}; there are {', '.join(there)}")

    def only(self, column):
        """Returns the table of this column alone."""
        return Table(self.path, [column])

    def rows(self):
        """Yields (place, row)."""
        if not self.files:
            for number, row in enumerate(undecoded(self.saved.select_columns(self.columns))):
                yield f"{self.path}: row {number}", row
        for file in self.files:
            for number, row in enumerate(csv_rows(file) if file.suffix == ".csv" else self.parquet_rows(file)):
                yield f"{file}: row {number}", row

    def parquet_rows(self, file):
        import pyarrow.parquet

        for batch in opened(file, pyarrow).iter_batches(batch_size=256, columns=self.columns):
            yield from batch.to_pylist()


def opened(file, pyarrow):
    try:
        return pyarrow.parquet.ParquetFile(file)
    except pyarrow.ArrowInvalid as error:
        raise UserError(f"{file}: {str(error).splitlines()[0]}") from None


def csv_rows(file):
    with open(file, newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines)
        for row in reader:
            if None in row or None in row.values():
                raise UserError(f"{file}:{reader.line_num}: it has not as many values as the first line")
            yield row


def undecoded(saved):
    """Returns the rows with pictures as the bytes that they are."""
    from datasets import Image

    for name, feature in saved.features.items():
        if isinstance(feature, Image):
            saved = saved.cast_column(name, Image(decode=False))
    return saved

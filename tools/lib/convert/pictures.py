# SPDX-License-Identifier: MIT
"""The pictures of a source, with their classes."""

import dataclasses
import os
import pathlib

from ddprun import UserError
from convert.sources import Table, is_table

MARKS = {b"\xff\xd8\xff": "jpg", b"\x89PNG\r\n\x1a\n": "png", b"RIFF": "webp"}  # how files begin


@dataclasses.dataclass
class Picture:
    place: str  # for messages
    key: str  # unique within its split
    data: bytes
    label: object  # a class's name, or its number

    @property
    def kind(self):
        """Returns the ending of its file's name."""
        for mark, kind in MARKS.items():
            if self.data.startswith(mark) and (kind != "webp" or self.data[8:12] == b"WEBP"):
                return kind
        raise UserError(f"{self.place}: it is not a JPEG, PNG or WebP picture")


class Folder:
    """A folder of pictures for each class."""

    def __init__(self, path):
        self.path = path
        self.classes = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not hidden(entry))
        loose = [entry for entry in path.iterdir() if entry.is_file() and not hidden(entry)]
        if not self.classes or loose:
            raise UserError(f"{loose[0] if loose else path}: expected a folder of pictures for each class, and nothing else")
        for name in self.classes:
            if not any(True for _ in pictures_below(path / name)):
                raise UserError(f"{path / name}: the class {name} is empty")

    def __iter__(self):
        keys = {}
        for name in self.classes:
            for file in pictures_below(self.path / name):
                key = file.relative_to(self.path).with_suffix("").as_posix().replace(".", "_")
                if key in keys:
                    raise UserError(f"{file} and {keys[key]} have one name, but for their endings: rename one")
                keys[key] = file
                yield Picture(str(file), key, file.read_bytes(), name)


class Rows:
    """A table with a column of pictures, or of their paths beside it, and one of classes."""

    def __init__(self, path, image, label):
        self.image, self.label, self.table = image, label, Table(path, [image, label])
        self.folder = path if path.is_dir() else path.parent
        self.classes = self.table.names.get(label) or self.seen_names()  # None: they are numbers

    def seen_names(self):
        """Returns the names in the column of classes, sorted; None if they are numbers."""
        found = {row[self.label] for _, row in self.table.only(self.label).rows()}
        texts = {str(name) for name in found if name is not None}
        return None if all(name.isdigit() for name in texts) else sorted(texts)

    def __iter__(self):
        for number, (place, row) in enumerate(self.table.rows()):
            yield Picture(place, f"{number:09}", self.bytes_of(row[self.image], place), self.class_of(row[self.label], place))

    def bytes_of(self, value, place):
        if isinstance(value, dict):  # as Hugging Face keeps them
            value = value.get("bytes") or value.get("path")
        if isinstance(value, str):
            file = self.folder / value
            if not file.is_file():
                raise UserError(f"{place}: {file}: no such file")
            return file.read_bytes()
        if not isinstance(value, bytes):
            raise UserError(f"{place}: the column {self.image} holds {type(value).__name__}, expected a picture or its path")
        return value

    def class_of(self, value, place):
        if isinstance(value, str) and value.isdigit() and not self.classes:
            value = int(value)  # of a .csv file, which has texts only
        if isinstance(value, str) and value or isinstance(value, int) and value >= 0:
            return self.classes[value] if self.classes and isinstance(value, int) else value
        raise UserError(f"{place}: the column {self.label} holds {value!r}, expected a class's name, or its number from 0")


def pictures_of(path, options):
    if is_table(path):
        return Rows(path, options.image, options.label)
    if path.is_file():
        raise UserError(f"{path}: expected a folder of pictures, or a .parquet or .csv file")
    return Folder(path)


def pictures_below(folder):
    for parent, folders, names in os.walk(folder):
        folders.sort()
        yield from (pathlib.Path(parent, name) for name in sorted(names) if not name.startswith("."))


def hidden(entry):
    return entry.name.startswith(".")

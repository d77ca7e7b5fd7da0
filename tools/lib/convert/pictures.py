# SPDX-License-Identifier: MIT
"""The pictures of a source, with their classes."""

import dataclasses

from ddprun import UserError
from convert.account import Account
from convert.names import has_blanks, number_in, require_distinct, tidy
from convert.sources import entries, regular
from convert.tables import Table, is_table

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

    def __init__(self, path, account):
        self.path, self.account = path, account
        found = entries(path, account)
        self.classes = [entry.name for entry in found if entry.is_dir()]
        loose = [entry for entry in found if not entry.is_dir()]
        if not self.classes or loose:
            raise UserError(f"{loose[0] if loose else path}: expected a folder of pictures for each class, and nothing else")
        require_distinct(self.classes, f"{path}: the classes")
        for name in self.classes:
            if not any(True for _ in pictures_below(path / name, Account())):
                raise UserError(f"{path / name}: the class {name} is empty")

    def __iter__(self):
        keys = {}
        for name in self.classes:
            for file in pictures_below(self.path / name, self.account):
                key = file.relative_to(self.path).with_suffix("").as_posix().replace(".", "_")
                if key in keys:
                    raise UserError(f"{file} and {keys[key]} have one name, but for their endings: rename one")
                keys[key] = file
                yield Picture(str(file), key, regular(file).read_bytes(), name)


class Rows:
    """A table with a column of pictures, or of their paths beside it, and one of classes."""

    def __init__(self, path, image, label, account):
        self.path, self.image, self.label, self.account = path, image, label, account
        self.table = Table(path, account, [image, label])
        self.folder = path if path.is_dir() else path.parent
        self.known = self.table.names.get(label)  # what numbers mean
        self.classes = self.known or self.seen_names()  # None: they are numbers

    def seen_names(self):
        """Returns the names in the column of classes, sorted; None if they are numbers."""
        found = {self.class_in(row[self.label], place) for place, row in Table(self.path, Account(), [self.label]).rows()}
        if all(isinstance(one, int) for one in found):
            return None
        names = sorted(map(str, found))
        require_distinct(names, f"{self.path}: the classes")
        return names

    def __iter__(self):
        for number, (place, row) in enumerate(self.table.rows()):
            value = row[self.label]
            label = self.class_in(value, place)
            if has_blanks(value):
                self.account.change("blanks at the ends of names of classes", place)
            if isinstance(label, int) and self.classes:
                label = self.known[label] if self.known else str(label)
            yield Picture(place, f"{number:09}", self.bytes_of(row[self.image], place), label)

    def bytes_of(self, value, place):
        if isinstance(value, dict):  # as Hugging Face keeps them
            value = value.get("bytes") or value.get("path")
        if isinstance(value, str):
            try:
                return regular(self.folder / value).read_bytes()
            except UserError as error:
                raise UserError(f"{place}: {error}") from None
        if not isinstance(value, bytes):
            raise UserError(f"{place}: the column {self.image} holds {type(value).__name__}, expected a picture or its path")
        return value

    def class_in(self, value, place):
        """Returns a class's name, or its number from 0."""
        if isinstance(value, bool):
            return str(value)
        name = tidy(value) if isinstance(value, str) else ""
        number = number_in(name) if name else value
        if isinstance(number, int) and 0 <= number < (len(self.known) if self.known else float("inf")):
            return number
        if name and (number is None or isinstance(number, float) and number == number):
            return name
        raise UserError(f"{place}: the column {self.label} holds {value!r}, expected a class's name, or its number from 0")


def pictures_of(path, options, account):
    if is_table(path):
        return Rows(path, options.image, options.label, account)
    if path.is_file():
        raise UserError(f"{path}: expected a folder of pictures, or a .parquet, .csv or .tsv file")
    return Folder(path, account)


def pictures_below(folder, account, above=()):
    """Yields the files in it, then those in the folders below, sorted."""
    here = folder.resolve()
    if here in above:
        raise UserError(f"{folder}: it is a link to a folder that it lies in")
    found = entries(folder, account)
    yield from (entry for entry in found if not entry.is_dir())
    for entry in found:
        if entry.is_dir():
            yield from pictures_below(entry, account, (*above, here))

# SPDX-License-Identifier: MIT
"""Writes tar files as WebDataset does, and the index of each."""

import io
import tarfile
import zlib

import numpy
from safetensors.numpy import save_file

from ddprun import UserError
from convert.account import Account
from convert.pictures import pictures_of


def described(header):
    """What a member's header says of it, which an index is checked by: its name and size."""
    return header[:100] + header[124:136] + header[345:500]


class Shards:
    """The shards of a split, one after the other."""

    def __init__(self, split, output, limit):
        self.split, self.output, self.limit = split, output, limit
        self.count, self.tar = 0, None

    def add(self, key, kind, data, label):
        if self.tar is None:
            self.name = f"{self.split}-{self.count:06}.tar"
            self.tar = tarfile.open(self.output.file(self.name), "w", format=tarfile.USTAR_FORMAT, errors="strict")
            self.count += 1
            self.lists = {name: [] for name in ("offset", "bytes", "label", "class_offset", "check")}
        written = str(label).encode()
        begin, header = self.member(f"{key}.{kind}", data)
        class_begin, class_header = self.member(f"{key}.cls", written)
        check = zlib.crc32(written.ljust(512, b"\0"), zlib.crc32(described(class_header), zlib.crc32(described(header))))
        for name, value in zip(self.lists, (begin, len(data), label, class_begin, check)):
            self.lists[name].append(value)
        if self.tar.offset >= self.limit:
            self.close()

    def member(self, name, data):
        """Returns where its data begin, and the header before them."""
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(data), 0o644
        try:
            header = info.tobuf(self.tar.format, self.tar.encoding, self.tar.errors)
        except ValueError:
            raise UserError(f"{name}: the name is too long for a tar file") from None
        begin = self.tar.offset + len(header)
        self.tar.addfile(info, io.BytesIO(data))
        return begin, header

    def close(self):
        """Ends the shard that is being written, and writes its index."""
        if self.tar is None:
            return
        self.tar.close()
        status = self.output.part(self.name).stat()
        lists = {**self.lists, "shard_bytes": [status.st_size], "shard_mtime_ns": [status.st_mtime_ns]}
        save_file({name: numpy.array(values, numpy.int64) for name, values in lists.items()}, self.output.file(f"{self.name}.index"))
        self.tar = None


def convert(splits, output, options):
    """Returns a line to be told for each split."""
    accounts = {split: Account() for split in splits}
    sources = {split: pictures_of(path, options, accounts[split]) for split, path in splits.items()}
    classes = Classes(splits, sources)
    lines = []
    for split, source in sources.items():
        shards, counts = Shards(split, output, options.shard_size), {}
        for picture in source:
            label = classes.number(picture, split)
            counts[label] = counts.get(label, 0) + 1
            shards.add(picture.key, picture.kind, picture.data, label)
            output.progress(f"{split}: {sum(counts.values()):,} pictures")
        shards.close()
        classes.require_all(split, counts)
        lines.append(accounts[split].line(f"{split}: {sum(counts.values()):,} pictures of {len(counts)} classes in {shards.count} shards"))
    if classes.names:
        output.write_json("classes.json", classes.names)
    return lines


class Classes:
    """The classes of all splits: those of train, which the others must have too."""

    def __init__(self, splits, sources):
        self.splits, self.names, self.first = splits, None, next(iter(splits))
        for split, source in sources.items():
            known = source.classes
            if known is None:
                continue
            if self.names is None:
                self.names, self.first = list(known), split
            elif list(known) != self.names:
                self.refuse(split, known)
        self.numbers = {name: number for number, name in enumerate(self.names or ())}

    def refuse(self, split, known):
        missing = sorted(set(self.names) - set(known))
        extra = sorted(set(known) - set(self.names))
        told = "the order of the classes differs"
        if missing:
            told = f"{self.splits[split]} has no class {missing[0]}"
        elif extra:
            told = f"only {self.splits[split]} has the class {extra[0]}"
        raise UserError(f"{told}: the classes of {split} and {self.first} must be the same")

    def number(self, picture, split):
        if isinstance(picture.label, int) and not self.names:
            return picture.label
        if picture.label not in self.numbers:
            raise UserError(f"{picture.place}: {split} has the class {picture.label!r}, which {self.first} has not")
        return self.numbers[picture.label]

    def require_all(self, split, counts):
        """Every class has pictures in train; other splits need not have all."""
        if not counts:
            raise UserError(f"{self.splits[split]}: it has no pictures")
        missing = set(range(len(self.names) if self.names else max(counts) + 1)) - set(counts)
        if missing and split == "train":
            number = min(missing)
            raise UserError(f"{self.splits[split]}: the class {self.names[number] if self.names else number} is empty")

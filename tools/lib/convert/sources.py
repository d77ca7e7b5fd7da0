# SPDX-License-Identifier: MIT
"""What a source is: which splits it has in it, and which files a folder holds."""

import pathlib
import re

from ddprun import UserError
from convert.account import Account

SPLITS = ("train", "val", "test")
OTHER_NAMES = {"training": "train", "validation": "val", "valid": "val", "dev": "val", "eval": "val", "testing": "test"}
TABLES = (".parquet", ".csv", ".tsv")
TEXTS = (".txt",)
HUGGING_FACE = "dataset_dict.json"  # lists the splits beside it


def split_named(word):
    """Returns the split that Train, valid or dev means; None if it means none."""
    name = OTHER_NAMES.get(word.lower(), word.lower())
    return name if name in SPLITS else None


def splits_in(word, account):
    """Returns {split: path} of a source that has its splits in it; {"train": path} if it has none."""
    path = pathlib.Path(word)
    inside, others = {}, []
    for entry in entries(path, Account()) if path.is_dir() else ():
        split = split_named(entry.name) if entry.is_dir() else None
        if split in inside:
            raise UserError(f"{inside[split]} and {entry} are both called {split}: name each source, as {split}={entry}")
        if split:
            inside[split] = entry
        else:
            others.append(entry)
    if not inside:
        refuse_mixed_splits(others)
        return {"train": path}
    entries(path, account)  # counts the hidden ones
    for entry in others:
        if entry.is_dir() or ending(entry) in TABLES + TEXTS:
            raise UserError(
                f"{entry} lies beside {next(iter(inside.values()))} and is not a split: name each source, as train={entry}; "
                f"if these are classes, train={path}"
            )
        if entry.name != HUGGING_FACE:
            account.leave_out("files beside the splits", entry)
    return {split: inside[split] for split in SPLITS if split in inside}


def refuse_mixed_splits(entries):
    """A folder of files is one split: test.csv beside train.csv would be trained on."""
    named = {}
    for entry in entries:
        if ending(entry) in TABLES + TEXTS:
            named.setdefault(split_named(re.split(r"[-_.]", entry.name)[0]), entry)
    other = next((split for split in named if split not in (None, "train")), None)
    if other:
        raise UserError(
            f"{named[other]}: the files of a folder are one split, and this one is called {other}: name each source, as "
            f"{other}={named[other]}"
        )


def ending(path):
    return path.suffix.lower()


def entries(folder, account):
    """Returns what is in a folder, sorted, but hidden entries."""
    found = sorted(folder.iterdir())
    for entry in found:
        if hidden(entry.name):
            account.leave_out("hidden files", entry)
    return [entry for entry in found if not hidden(entry.name)]


def hidden(name):
    return name.startswith(".")


def has_files(folder, endings):
    return folder.is_dir() and any(ending(entry) in endings and not hidden(entry.name) for entry in folder.iterdir())


def files_of(path, endings, account):
    """Returns the files of a source with these endings: the one that it is, or all in its folder, which has no others below."""
    if not path.is_dir():
        return [regular(path)]
    files = []
    for entry in entries(path, account):
        if entry.is_dir():
            raise UserError(f"{entry}: it is a folder: expected files ({', '.join(endings)}) alone, which are read as one split")
        if ending(entry) in endings:
            files.append(regular(entry))
        else:
            account.leave_out("files of other kinds", entry)
    if not files:
        raise UserError(f"{path}: there is no {' or '.join(endings)} file in it")
    return files


def regular(path):
    """Refuses pipes and devices, whose end may never come."""
    if not path.is_file():
        raise UserError(f"{path}: it is not a file" if path.exists() else f"{path}: no such file")
    return path


def text_lines(path, newline=None):
    """Yields the lines of a file in UTF-8, with or without the mark at its beginning."""
    with open(regular(path), newline=newline, encoding="utf-8-sig", errors="surrogateescape") as lines:
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

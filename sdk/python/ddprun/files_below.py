# SPDX-License-Identifier: MIT
"""Reads the files of a run's folder, which may be somebody else's: whoever looks at such a run shows what was read.

Below the folder no link is followed, so that nothing is read that does not lie there, and nothing but a regular file is
opened: a pipe or a device is refused, not waited for. The folder itself may be reached over links. `name` is a path below
it ("images/7.png"). Every refusal is a UserError that names the file, and what was found.
"""

import os
import pathlib
import stat

from ddprun.errors import UserError

MOST_BYTES = 64 << 20  # of a file that is read whole: the largest, an environment.json or a picture, have less than 1 MB
KINDS = (
    (stat.S_ISLNK, "is a link, and a run's files are read only where they lie in its folder"),
    (stat.S_ISFIFO, "is a pipe, and a file was expected"),
    (stat.S_ISDIR, "is a folder, and a file was expected"),
    (stat.S_ISREG, "is a file, and a folder was expected"),
    (lambda mode: True, "is a device or a socket, and a file was expected"),
)
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a pipe is not waited for


def open_below(folder, name):
    """Opens the file to be read as bytes; returns None if there is none of that name."""
    path, parts = pathlib.Path(folder), pathlib.PurePosixPath(name).parts
    if not parts or "\0" in str(name) or {"..", "/"} & set(parts):
        raise UserError(f"{path / name}: does not lie in the run's folder")
    at, part = None, path
    try:
        at = os.open(path, FOLDER)
        for number, part in enumerate(parts, 1):
            path, last = path / part, number == len(parts)
            inner = os.open(part, (FILE if last else FOLDER) | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        if not stat.S_ISREG(mode := os.fstat(at).st_mode):
            raise UserError(f"{path}: {kind_of(mode)}")
        stream, at = os.fdopen(at, "rb", buffering=1 << 20), None
        return stream
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: {why(error, at, part)}") from None
    finally:
        if at is not None:
            os.close(at)


def why(error, at, part):
    """Says why a part of a path could not be opened: the error, or what it is."""
    try:
        mode = os.stat(part, dir_fd=at, follow_symlinks=False).st_mode
    except OSError:
        mode = None
    is_kind = mode is not None and (stat.S_ISLNK(mode) or isinstance(error, NotADirectoryError))
    return kind_of(mode) if is_kind else f"cannot be read: {error.strerror}"


def kind_of(mode):
    return next(text for is_kind, text in KINDS if is_kind(mode))


def read_below(folder, name, most=MOST_BYTES):
    """Returns the bytes of the file; None if there is none of that name. Refuses one of more than `most` bytes."""
    stream = open_below(folder, name)
    if stream is None:
        return None
    with stream:
        data = stream.read(min(most, os.fstat(stream.fileno()).st_size) + 1)
    if len(data) > most:
        raise UserError(f"{pathlib.Path(folder) / name}: has more than {most >> 20} MB, and no such file of a run has")
    return data


def text_below(folder, name):
    """Returns the text of the file, with a mark for what is not UTF-8; None if there is none of that name."""
    data = read_below(folder, name)
    return None if data is None else data.decode(errors="replace")


def regular_below(folder, name):
    """Returns folder/name for whoever passes files on by their names; None if open_below() does not open it."""
    try:
        stream = open_below(folder, name) if isinstance(name, str) else None
    except UserError:
        return None
    if stream is None:
        return None
    stream.close()
    return pathlib.Path(folder) / name

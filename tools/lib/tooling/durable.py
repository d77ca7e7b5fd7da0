# SPDX-License-Identifier: MIT
"""Files and folders that a power cut does not take back: what is done is on the disk when the call returns."""

import contextlib
import os
import secrets


def write_file(file, content, mode=0o666):
    """Text, or bytes. The file is whole, or as it was before, whatever happens when."""
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def make_folder(folder):
    """And those above it."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def sync(file):
    """What was written to it, by whoever. Nothing where it is not there."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder):
    """The names in it. A file system that cannot (some network ones) has done what it can: no error."""
    with contextlib.suppress(OSError):
        sync(folder)

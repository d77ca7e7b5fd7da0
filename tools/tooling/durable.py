# SPDX-License-Identifier: MIT
"""Files and folders that a power cut does not take back: what is done is on the disk when the call returns."""

import errno
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
    sync(file.parent)


def make_folder(folder):
    """And those above it."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync(one.parent)


def sync(path):
    """A file's content, or the names in a folder. Nothing where it is not there, or its file system cannot do that."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a folder, on some network file systems
            raise
    finally:
        os.close(descriptor)

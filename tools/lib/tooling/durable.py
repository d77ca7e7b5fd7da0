# SPDX-License-Identifier: MIT
"""Writes files and folders that survive a power cut: they are on the disk when the call
returns.
"""

import contextlib
import os
import secrets


def write_file(file, content, mode=0o666):
    """Writes text or bytes. The file is complete or as it was before, whatever happens."""
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
    """Syncs the folder and those above it."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def sync(file):
    """Syncs what any process wrote to it; does nothing if it does not exist."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder):
    """Syncs the names in it. Ignores file systems that cannot (some network ones)."""
    with contextlib.suppress(OSError):
        sync(folder)

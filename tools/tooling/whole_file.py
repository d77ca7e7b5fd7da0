# SPDX-License-Identifier: MIT
"""Files and folders that outlive a power cut."""

import os


def write_whole(file, text):
    """In place of an earlier file: on the disk when it returns, and never torn."""
    fresh = file.with_name(f".{file.name}.tmp-{os.getpid()}")
    try:
        with open(fresh, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, file)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync_names(file.parent)


def sync_names(folder):
    """Forces a folder's names to the disk, where the file system can."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some network file systems have no fsync for folders, and need none
    finally:
        os.close(descriptor)


def make_folder(folder):
    """With those above it, for good."""
    grown = [path.parent for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in grown:
        sync_names(path)

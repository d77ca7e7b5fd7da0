# SPDX-License-Identifier: MIT
"""Locks of files, as ddprun and our tools hold them for as long as they live."""

import fcntl
import re


def is_held(file):
    """Whether a process holds its lock; None where there is no such file, or that cannot be told, as on some network file systems."""
    try:
        with open(file, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def owner(file):
    """(process, host) of whoever took a run folder's lock last; None where the file does not tell."""
    try:
        found = re.fullmatch(r"process (\d+) on (\S+)", file.read_text().strip())
    except OSError:
        return None
    return (int(found[1]), found[2]) if found else None

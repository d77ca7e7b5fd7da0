# SPDX-License-Identifier: MIT
"""File locks, as ddprun and our tools hold them while they live."""

import fcntl
import re


def is_held(file):
    """Whether a process holds its lock; None if there is no such file or that is unknown, as on some network file systems."""
    try:
        with open(file, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def owner(file):
    """Returns (process, host) of the last holder of a run folder's lock; None if the file does not say."""
    found = re.fullmatch(r"process (\d+) on (\S+)", file.read_text(errors="replace").strip()) if file.is_file() else None
    return (int(found[1]), found[2]) if found else None

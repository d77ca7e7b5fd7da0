# SPDX-License-Identifier: MIT
"""What the follower says: to the user, or to the ddprun that has started it."""

import contextlib
import os
import sys

from ddprun.terminal import printable

channel = None  # a descriptor, where ddprun listens


def speak_to_ddprun():
    """Makes standard output the channel; what a client prints there goes to standard error, and its children do not hold it."""
    global channel
    channel = os.dup(1)
    os.dup2(2, 1)


def say(text, kind="info"):
    """Says it in a line. To ddprun, `kind` is as in Sidecar of <ddprun/logger.h>, a warning of what keeps rows from being sent; others are not shown."""
    line = " ".join(printable(text).split("\n"))
    print(f"follow: {line}", file=sys.stderr, flush=True)
    if channel is not None:
        with contextlib.suppress(OSError):  # ddprun was killed
            os.write(channel, f"{kind} {line}\n".encode())


def first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0]

# SPDX-License-Identifier: MIT
"""What passes between the follower and the user, or the ddprun that has started it beside its run, as Sidecar in
<ddprun/logger.h> has it."""

import contextlib
import os
import select
import sys

from ddprun.terminal import printable

channel = None  # a descriptor, where ddprun listens


def speak_to_ddprun():
    """Makes standard output the channel; what a client prints there goes to standard error, and its children do not hold it."""
    global channel
    channel = os.dup(1)
    os.dup2(2, 1)


def say(text, kind="info"):
    """Says it in a line. To ddprun, `kind` is as in Sidecar, a warning of what keeps rows from being sent; others are not shown."""
    line = " ".join(printable(text).split("\n"))
    print(f"follow: {'error: ' if kind == 'failed' else ''}{line}", file=sys.stderr, flush=True)
    if channel is not None:
        with contextlib.suppress(OSError):  # ddprun was killed
            os.write(channel, f"{kind} {line}\n".encode())


def first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0]


def input_ends(seconds):
    """Waits so long for the end of standard input, where nothing is ever written. Returns whether it has come: the run is over."""
    return bool(select.select([0], [], [], seconds)[0]) and os.read(0, 1) == b""

# SPDX-License-Identifier: MIT
"""Follows a run for the ddprun that trains it, as Sidecar in <ddprun/logger.h> has it."""

import math
import os
import select
import threading

from ddprun import UserError, run
from follow.follower import Follower
from follow.journal import Followed
from follow.messages import first_line, say, speak_to_ddprun
from follow.trackers import tracker
from tooling.ctrl_c import ctrl_c_sets

PATIENCE_AT_END = 20  # seconds for a tracker that goes away at the run's end; one that is away already has a last try


def follow_beside(options):
    """Returns the exit code. What cannot be sent stays in the run's folder, for the next attempt or the next call."""
    speak_to_ddprun()
    try:
        client = tracker(options.to)
    except UserError as error:
        return fail(str(error), 2)
    try:
        return follow(client, options)
    except UserError as error:
        return fail(str(error), 2)
    except client.errors as error:
        return fail(first_line(error) + (f". {client.advice}" if client.advice else ""), 1)
    except Exception as error:  # of the client's; ddprun starts us again
        say(f"{type(error).__name__}: {first_line(error)}", "warning")
        raise


def fail(text, code):
    say(text, "failed")
    return code


def follow(client, options):
    stopped = threading.Event()
    ctrl_c_sets(stopped)
    follower, over = None, False
    while not stopped.is_set():
        follower = follower or attach(client, options, over)
        if follower and follower.poll() and over and follower.finish():
            if follower.items.odd:
                say(follower.odd_lines())
            say(f"{follower.sent} rows sent; the run has ended: {follower.status()}", "done")
            return 0
        if over:
            stopped.wait(min(options.poll, 0.5))
        elif input_ends(options.poll):
            over = True
            if follower:
                follower.tries.hurry(0 if follower.tries.failed else PATIENCE_AT_END)
    if follower:
        follower.leave()
    return 0


def attach(client, options, over):
    """Returns None while the follower of an attempt before still sends what that has left."""
    try:
        follower = Follower(client, run(options.runs[0]), options)
    except Followed:
        if over:
            raise
        return None
    follower.tries.patience = PATIENCE_AT_END if over else math.inf
    return follower


def input_ends(seconds):
    """Waits so long for the end of standard input, where nothing is ever written."""
    return bool(select.select([0], [], [], seconds)[0]) and os.read(0, 1) == b""

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sends runs to an experiment tracker while they train, until they end. See `ddprun docs logging`."""

import argparse
import os
import pathlib
import sys
import threading

sys.dont_write_bytecode = True

from tooling.ctrl_c import ctrl_c_sets  # noqa: E402
from tooling.place import command  # noqa: E402
from tooling.start import run_tool  # noqa: E402
from ddprun import UserError, run  # noqa: E402
from follow.follower import Beside, Follower  # noqa: E402
from follow.messages import first_line, say, speak_to_ddprun  # noqa: E402
from follow.trackers import KINDS, require_options, require_usable, tracker, tracker_name  # noqa: E402


def parse_arguments():
    parser = argparse.ArgumentParser(prog=command("follow"), description=__doc__)
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="*", help="folder of a run: outputs/mnist/latest")
    add("--to", required=True, type=tracker_name, metavar="|".join(KINDS), help="the tracker; its own package must be installed")
    add("--project", help="default: the experiment's name, or the tracker's variable (WANDB_PROJECT)")
    add("--entity", help="user or team; default: the tracker's own (wandb)")
    add("--name", help="name of the run there; default: experiment/folder")
    add("--group", help="runs of the same group are shown together (wandb)")
    add("--tags", type=lambda text: text.split(","), metavar="A,B", help="separated by commas")
    add("--uri", help="mlflow's tracking URI")
    add("--offline", action="store_true", help="no network: write below RUN, to be sent later (wandb)")
    add("--model", action="store_true", help="send the best weights too, at the end")
    add("--once", action="store_true", help="send what is there now without waiting for more")
    add("--poll", type=float, default=2, metavar="SECONDS", help="how often to look for new rows (default 2)")
    add("--check", action="store_true", help="only say what is missing to use the tracker, as far as that shows without a network")
    add("--beside", action="store_true", help="as ddprun starts it for the loggers of the trackers' names")
    options = parser.parse_args()
    if not options.runs and not options.check:
        parser.error("the following arguments are required: RUN")
    if options.poll <= 0:
        parser.error(f"--poll {options.poll:g}: must be more than 0 seconds")
    return options


def check(options):
    try:
        require_usable(options)
    except UserError as error:
        print(error)
        return 2
    return 0


def followers_of(options, client):
    if options.beside:
        return [Beside.when_free(client, run(options.runs[0]), options)]
    followers = []
    for one in [run(path) for path in dict.fromkeys(options.runs)]:
        follower = Follower(client, one, options)
        if follower.is_done():
            say(f"{one.path}: there is nothing new: all of it was sent before, as {follower.journal.known['id']}")
        else:
            followers.append(follower)
    for follower in followers:
        follower.begin()
    return followers


def follow(followers, options, stopped):
    """Returns when all runs have ended, or the event is set."""
    left = list(followers)
    while left and not stopped.is_set():
        for follower in list(left):
            over = follower.is_over()
            if follower.poll() and over and follower.finish():
                say(follower.report(f"the run has ended: {follower.status()}"), "done")
                left.remove(follower)
        if options.once and not any(follower.tries.failed for follower in left):
            break
        if left:
            left[0].wait(stopped)
    for follower in left:
        follower.leave()
        say(follower.report("the run continues, and calling it again continues from here"), "note")


def send(options):
    """Returns the exit code."""
    stopped = threading.Event()
    ctrl_c_sets(stopped)
    client = tracker(options.to)
    try:
        follow(followers_of(options, client), options, stopped)
    except client.errors as error:
        advice = f". {client.advice}" if client.advice else ""
        say(f"{first_line(error)}; calling it again continues from here{advice}", "failed")
        return 1
    return 0


def main():
    options = parse_arguments()
    if options.check:
        return check(options)
    if options.beside:
        speak_to_ddprun()
        # It has started <prefix>/share/ddprun/tools/follow, which in a build is a link to the clone's.
        os.environ.setdefault("DDPRUN_PROGRAM", str(pathlib.Path(sys.argv[0]).absolute().parents[3] / "bin/ddprun"))
    try:
        require_options(options)
        return send(options)
    except UserError as error:
        say(str(error), "failed")
        return 2
    except Exception as error:  # of the client's; ddprun starts us again
        say(f"{type(error).__name__}: {first_line(error)}", "warning")
        raise


if __name__ == "__main__":
    run_tool(main, "follow")

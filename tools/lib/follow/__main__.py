#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sends runs to an experiment tracker while they train, until they end. See `ddprun docs logging`."""

import argparse
import sys
import threading

sys.dont_write_bytecode = True

from tooling.ctrl_c import ctrl_c_sets  # noqa: E402
from tooling.place import command  # noqa: E402
from tooling.start import run_tool  # noqa: E402
from ddprun import UserError, run  # noqa: E402
from follow.beside import follow_beside  # noqa: E402
from follow.follower import Follower  # noqa: E402
from follow.messages import first_line, say  # noqa: E402
from follow.trackers import KINDS, require_options, require_usable, tracker  # noqa: E402


def parse_arguments():
    parser = argparse.ArgumentParser(prog=command("follow"), description=__doc__)
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="*", help="folder of a run: outputs/mnist/latest")
    add("--to", required=True, choices=KINDS, help="the tracker; its own package must be installed")
    add("--project", help="default: the experiment's name, or the tracker's variable (WANDB_PROJECT)")
    add("--entity", help="user, team or workspace; default: the tracker's own (wandb, comet)")
    add("--name", help="name of the run there; default: experiment/folder")
    add("--group", help="runs of the same group are shown together (wandb, trackio)")
    add("--tags", type=lambda text: text.split(","), metavar="A,B", help="separated by commas")
    add("--uri", help="where it is kept: mlflow's tracking URI, aim's repository")
    add("--offline", action="store_true", help="no network: write below RUN, to be sent later (wandb, comet, clearml)")
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


def odd(follower):
    return f". {follower.odd_lines()}" if follower.items.odd else ""


def follow(followers, options):
    stopped = threading.Event()
    ctrl_c_sets(stopped)
    for follower in followers:
        follower.begin()
    left = list(followers)
    while left and not stopped.is_set():
        for follower in list(left):
            over = follower.is_over()
            if follower.poll() and over and follower.finish():
                say(f"{follower.run.path}: {follower.sent} rows sent; the run has ended: {follower.status()}{odd(follower)}")
                left.remove(follower)
        if options.once and not any(follower.tries.failed for follower in left):
            break
        if left:
            stopped.wait(options.poll)
    for follower in left:
        follower.leave()
        say(f"{follower.run.path}: {follower.sent} rows sent; the run continues, and calling it again continues from here{odd(follower)}")


def check(options):
    try:
        require_usable(options)
    except UserError as error:
        print(error)
        return 2
    return 0


def main():
    options = parse_arguments()
    if options.check:
        return check(options)
    require_options(options)
    if options.beside:
        return follow_beside(options)
    found = [run(path) for path in dict.fromkeys(options.runs)]
    client = tracker(options.to)
    if len(found) > 1 and client.one_by_one:
        raise UserError(f"{options.to} takes one run at a time: call it for each")
    followers = []
    for one in found:
        follower = Follower(client, one, options)
        if follower.is_done():
            say(f"{one.path}: there is nothing new: all of it was sent before, as {follower.journal.header['id']}")
        else:
            followers.append(follower)
    try:
        follow(followers, options)
    except client.errors as error:
        say(f"error: {options.to}: {first_line(error)}; calling it again continues from here" + (f". {client.advice}" if client.advice else ""))
        return 1
    return 0


if __name__ == "__main__":
    run_tool(main, "follow")

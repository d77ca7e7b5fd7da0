#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sends runs to Weights & Biases while they train, until they end. Needs the package wandb. See docs/logging.md."""

import argparse
import sys
import threading

sys.dont_write_bytecode = True

from tooling.ctrl_c import ctrl_c_sets  # noqa: E402
from tooling.place import command  # noqa: E402
from ddprun import UserError, run  # noqa: E402
from ddprun.terminal import printable  # noqa: E402
from wandb_follow.follower import Follower  # noqa: E402

ADVICE = (
    "log in once with `wandb login`, or set WANDB_API_KEY; --offline needs neither, and `wandb sync` sends it later"
)


def parse_arguments():
    parser = argparse.ArgumentParser(prog=command("wandb_follow"), description=__doc__)
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", help="folder of a run: outputs/mnist/latest")
    add("--project", help="default: the experiment's name, or WANDB_PROJECT")
    add("--entity", help="user or team; default: W&B's own, or WANDB_ENTITY")
    add("--name", help="name of the run in W&B; default: experiment/folder, or WANDB_NAME")
    add("--group", help="runs of the same group are shown together")
    add("--tags", type=lambda text: text.split(","), metavar="A,B", help="separated by commas")
    add(
        "--offline",
        action="store_true",
        help="no network: write below RUN/wandb, for `wandb sync` (or WANDB_MODE=offline)",
    )
    add("--once", action="store_true", help="send what is there now without waiting for more")
    add("--poll", type=float, default=2, metavar="SECONDS", help="how often to look for new rows (default 2)")
    options = parser.parse_args()
    if options.poll <= 0:
        parser.error(f"--poll {options.poll:g}: must be more than 0 seconds")
    return options


def import_wandb():
    try:
        import wandb
    except ImportError as error:
        raise UserError(f"{error}: pip install wandb pillow, for {sys.executable}") from None
    return wandb


def say(text):
    print(f"wandb_follow: {printable(text)}", file=sys.stderr, flush=True)


def follow(followers, options):
    stopped = threading.Event()
    ctrl_c_sets(stopped)
    for follower in followers:
        follower.begin()
    left = list(followers)
    while left and not stopped.is_set():
        for follower in list(left):
            over = follower.is_over()
            follower.poll()
            if over:
                follower.finish()
                say(f"{follower.run.path}: {follower.sent} rows sent; the run has ended: {follower.status()}")
                left.remove(follower)
        if options.once:
            break
        if left:
            stopped.wait(options.poll)
    for follower in left:
        follower.leave()
        say(f"{follower.run.path}: {follower.sent} rows sent; the run goes on, and calling it again goes on from here")


def main():
    options = parse_arguments()
    found = [run(path) for path in dict.fromkeys(options.runs)]
    wandb = import_wandb()
    followers = []
    for one in found:
        follower = Follower(wandb, one, options)
        if follower.is_done():
            say(f"{one.path}: there is nothing new: all of it was sent before, as {follower.journal.header['id']}")
        else:
            followers.append(follower)
    try:
        follow(followers, options)
    except wandb.errors.Error as error:
        say(f"error: W&B: {str(error).splitlines()[0]}; {ADVICE}")
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        say(f"error: {error}")
        sys.exit(2)

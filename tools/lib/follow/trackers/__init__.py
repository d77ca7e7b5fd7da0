# SPDX-License-Identifier: MIT
"""One file for each tracker: a class Tracker that says in its client's words what the follower gives it."""

import argparse
import dataclasses
import importlib
import importlib.util
import os
import pathlib
import sys

from ddprun.errors import UserError
from ddprun.run_folder import file_in

OPTIONS = ("project", "name", "tags", "entity", "group", "offline", "uri")
ENDED_WELL = ("completed", "stopped_early")


@dataclasses.dataclass(frozen=True)
class Kind:
    """What is known of a tracker without its client."""

    packages: str  # for pip, the client first
    takes: tuple  # of OPTIONS
    keys: tuple  # variables of which one has to be set, unless one of the files is there
    files: tuple
    advice: str  # where there is neither

    @property
    def client(self):
        return self.packages.split()[0]


WANDB_LOGIN = "log in once with `wandb login`, or set WANDB_API_KEY; --offline needs neither, and `wandb sync` sends it later"
MLFLOW_PLACE = "set MLFLOW_TRACKING_URI or the option uri: http://127.0.0.1:5000 (`mlflow server` starts one), sqlite:///mlflow.db"

KINDS = {
    "mlflow": Kind("mlflow", ("project", "name", "tags", "uri"), ("MLFLOW_TRACKING_URI",), (), MLFLOW_PLACE),
    "wandb": Kind("wandb pillow", ("project", "name", "tags", "entity", "group", "offline"),
                  ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE"), ("~/.netrc", "~/_netrc", "$NETRC"), WANDB_LOGIN),
}  # fmt: skip


def tracker_name(text):
    """Returns it, as an argument of the command line."""
    if text not in KINDS:
        others = "metrics.jsonl in the run's folder has all rows, and TensorBoard shows what the logger tensorboard writes"
        raise argparse.ArgumentTypeError(f"there is no tracker {text}; known: {', '.join(KINDS)}. For any other, {others}")
    return text


def require_options(options):
    """Refuses options that mean nothing to the tracker."""
    for option in OPTIONS:
        if getattr(options, option) and option not in KINDS[options.to].takes:
            raise UserError(f"--{option} means nothing to {options.to}: leave it out")


def require_usable(options):
    """Refuses what is known to fail, as far as that shows without a network, and without importing the client."""
    require_options(options)
    kind = KINDS[options.to]
    if importlib.util.find_spec(kind.client) is None:
        raise UserError(missing(options.to, f"No module named '{kind.client}'"))
    uri = options.uri or os.environ.get("MLFLOW_TRACKING_URI", "")
    if options.to == "mlflow" and uri and "://" not in uri and not uri.startswith("databricks"):
        raise UserError(f"mlflow keeps no runs in {uri}: {kind.advice}")
    offline = options.offline or os.environ.get("WANDB_MODE") == "offline"
    files = [pathlib.Path(os.path.expandvars(file)).expanduser() for file in kind.files]
    has_key = any(os.environ.get(key) for key in kind.keys) or any(file.is_file() for file in files)
    if not (offline or options.uri or has_key):
        raise UserError(f"{options.to} does not know where to send it, or as whom: {kind.advice}")


def missing(name, what):
    return (
        f"{what}: {sys.executable} -m pip install {KINDS[name].packages}; or take another Python, which has it: PYTHON {sys.argv[0]} ...,"
        " or a logger's option `python`"
    )


def tracker(name):
    """Returns its class; the client is imported with it."""
    try:
        return importlib.import_module(f"follow.trackers.{name}").Tracker
    except ImportError as error:
        raise UserError(missing(name, str(error))) from None


class Base:
    """A run's counterpart in a tracker. The follower calls open() first, and finish() or leave() last."""

    errors = (OSError,)  # what the client throws if the tracker cannot be reached, or refuses
    advice = ""

    def __init__(self, run, options):
        self.run, self.options = run, options

    def open(self, known):
        """Begins the tracker's run, or continues the one that is known. Returns what is to be known of it: id, project ...;
        `word`, which is known before, marks the run there, so that one is found that was made and not noted.
        """
        raise NotImplementedError

    def arrived(self):
        """Returns the number of the first item that the tracker does not have."""
        raise NotImplementedError

    def send(self, number, item):
        """Sends an item. It may wait in a queue of the client's."""
        raise NotImplementedError

    def flush(self):
        """Called behind the items that are there."""

    def finish(self, status, summary):
        """Ends the tracker's run as the run itself has ended."""
        raise NotImplementedError

    def leave(self):
        """Detaches from a run that continues and may be followed again."""

    def files(self):
        """Returns the run's files that are kept with it: its experiment, summary, report and, if asked for, best weights."""
        files = [file_in(self.run.path, name) for name in ("config.yaml", "summary.json", "report.html")]
        if self.options.model and (self.run.path / "checkpoints/best").is_symlink():
            files.append(file_in(self.run.checkpoint("best"), "model.safetensors"))
        return [file for file in files if file]

# SPDX-License-Identifier: MIT
"""One file for each tracker: a class Tracker that says in its client's words what the follower gives it."""

import dataclasses
import importlib
import importlib.util
import os
import pathlib
import sys

from ddprun.errors import UserError

OPTIONS = ("project", "name", "tags", "entity", "group", "offline", "uri")


@dataclasses.dataclass(frozen=True)
class Kind:
    """What is known of a tracker without its client."""

    packages: str  # for pip, the client first
    takes: tuple = ("project", "name", "tags")  # of OPTIONS
    keys: tuple = ()  # variables of which one has to be set, unless one of the files is there
    files: tuple = ()
    advice: str = ""  # where there is neither

    @property
    def client(self):
        return self.packages.split()[0]


WANDB_LOGIN = "log in once with `wandb login`, or set WANDB_API_KEY; --offline needs neither, and `wandb sync` sends it later"
COMET_LOGIN = "log in once with `comet login`, or set COMET_API_KEY; --offline needs neither, and `comet upload` sends it later"
MLFLOW_PLACE = "set MLFLOW_TRACKING_URI or the option uri: http://127.0.0.1:5000 (`mlflow server` starts one), sqlite:///mlflow.db"

KINDS = {
    "aim": Kind("aim", ("project", "name", "tags", "uri")),
    "clearml": Kind("clearml", ("project", "name", "tags", "offline")),
    "comet": Kind("comet_ml", ("project", "name", "tags", "entity", "offline"), ("COMET_API_KEY",), ("~/.comet.config",), COMET_LOGIN),
    "dvclive": Kind("dvclive pillow", ()),
    "mlflow": Kind("mlflow", ("project", "name", "tags", "uri"), ("MLFLOW_TRACKING_URI",), (), MLFLOW_PLACE),
    "trackio": Kind("trackio", ("project", "name", "group")),
    "wandb": Kind("wandb pillow", ("project", "name", "tags", "entity", "group", "offline"),
                  ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE"), ("~/.netrc", "~/_netrc", "$NETRC"), WANDB_LOGIN),
}  # fmt: skip


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
    if kind.keys and not (offline or options.uri or has_key):
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

# SPDX-License-Identifier: MIT
"""One file for each tracker: a class Tracker that says in its client's words what the follower gives it."""

import importlib
import sys

from ddprun.errors import UserError

PACKAGES = {
    "aim": "aim", "clearml": "clearml", "comet": "comet_ml", "dvclive": "dvclive pillow", "mlflow": "mlflow", "trackio": "trackio",
    "wandb": "wandb pillow",
}  # fmt: skip


def tracker(name):
    """Returns its class; the client is imported with it."""
    try:
        return importlib.import_module(f"follow.trackers.{name}").Tracker
    except ImportError as error:
        raise UserError(f"{error}: pip install {PACKAGES[name]}, for {sys.executable}") from None

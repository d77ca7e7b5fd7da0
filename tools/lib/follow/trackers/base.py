# SPDX-License-Identifier: MIT
from ddprun.files_below import regular_below
from follow.messages import say

ENDED_WELL = ("completed", "stopped_early")


class Base:
    """A run's counterpart in a tracker. The follower calls open() first, and finish() or leave() last."""

    errors = (OSError,)  # what the client throws if the tracker cannot be reached, or refuses
    advice = ""
    one_by_one = False  # whether a process of the client has only one run

    def __init__(self, run, options):
        self.run, self.options = run, options
        self.word = ""  # marks the run there, so that one is found that was made and not noted

    def open(self, header):
        """Begins the tracker's run, or continues the one in the header. Returns the header to be kept: id, project ..."""
        raise NotImplementedError

    def arrived(self):
        """Returns the number of the first item that the tracker does not have; None if it cannot be asked."""
        return None

    def send(self, number, item):
        """Sends an item. It may have been sent before, by a follower that was killed."""
        raise NotImplementedError

    def flush(self):
        """Waits until what was sent is safe. Returns whether it is: not if it only waits in a queue of the client's."""
        return True

    def finish(self, status, summary):
        """Ends the tracker's run as the run itself has ended."""
        raise NotImplementedError

    def leave(self):
        """Detaches from a run that continues and may be followed again."""
        raise NotImplementedError

    # What several use

    @property
    def project(self):
        return self.options.project or str(self.run.config.get("name", "ddprun"))

    @property
    def name(self):
        return self.options.name or self.run.name

    def result(self, status, summary):
        """Returns how the run ended, with its summary but for the last metrics and the history, which are rows already."""
        return {"status": status} | {key: value for key, value in summary.items() if key not in ("metrics", "history")}

    def files(self):
        """Returns the run's files that are kept with it: its experiment, summary, report and, if asked for, best weights."""
        files = [regular_below(self.run.path, name) for name in ("config.yaml", "summary.json", "report.html")]
        if self.options.model and (self.run.path / "checkpoints/best").is_symlink():
            files.append(regular_below(self.run.checkpoint("best"), "model.safetensors"))
        return [file for file in files if file]

    def own_folder(self):
        folder = self.run.path / self.options.to
        folder.mkdir(exist_ok=True)
        return folder


def split_name(name):
    """Returns ("val", "loss") of "val/loss"."""
    split, _, metric = name.partition("/")
    return (split, metric) if metric else ("", split)


def has_pillow():
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        say("pictures are left out, for Pillow is missing (pip install pillow)")
        return False
    return True

# SPDX-License-Identifier: MIT
import dataclasses
import fcntl
import json
import os
import secrets

from ddprun.errors import UserError
from ddprun.rows import read_lines
from tooling.durable import make_folder, sync, sync_folder

FILES = ("metrics.jsonl", "tables.jsonl", "events.jsonl")


def open_no_link(path, flags):
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


@dataclasses.dataclass
class Batch:
    """Lines that are sent together: from each file those between two bytes. The first of their items has the number `step`."""

    step: int
    begin: dict
    end: dict


class Followed(UserError):
    """Another process follows the run."""


class Journal:
    """<run>/wandb/follow.jsonl, by the tracker's name: the tracker's run that this folder belongs to, and which lines are
    which of its items.

    A batch is noted before it is sent, and never changes: whoever was killed in the middle of it can ask the tracker how
    far it came, and continue with the very same items. Locked while it is open, so that no two follow the same run.
    """

    def __init__(self, run, tracker):
        self.run, folder = run, run.path / tracker
        try:
            if folder.is_symlink():
                raise UserError(f"{folder} is a link, and notes are only made in the run's own folder")
            make_folder(folder)
            self.file = open(folder / "follow.jsonl", "a+b", opener=open_no_link)
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sync_folder(folder)
        except BlockingIOError:
            raise Followed(f"{run.path} is followed already, by another tools/follow") from None
        except OSError as error:
            raise UserError(f"cannot write {error.filename or folder}: {error.strerror}") from None
        self.word = ""
        self.header, self.batches, self.last_end, self.arrived = {}, [], None, 0
        self.read(folder / "follow.jsonl")
        if not self.word:  # noted before the tracker knows it
            self.word = secrets.token_hex(16)
            self.note({"word": self.word})

    def read(self, file):
        lines, whole = read_lines(file)
        if self.file.seek(0, os.SEEK_END) > whole:
            self.file.write(b"\n")  # behind the half line of one that was killed
        for line in lines:
            if "word" in line:
                self.word = line["word"]
            elif "id" in line:
                self.header = line
            elif "step" in line:
                self.batches.append(Batch(line["step"], self.reached(), line["end"]))
            elif "arrived" in line:
                self.arrived = line["arrived"]
            elif "ended" in line:
                self.last_end = line

    def reached(self):
        """Returns the ends of the last lines that were noted."""
        return self.batches[-1].end if self.batches else dict.fromkeys(FILES, 0)

    def note(self, line):
        self.file.write(json.dumps(line).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def begin(self, header):
        self.header = header
        self.note(header)

    def add(self, step, end):
        batch = Batch(step, self.reached(), end)
        self.force_lines()
        self.note({"step": step, "end": end})
        self.batches.append(batch)
        return batch

    def confirm(self, step):
        """Notes that the tracker has all items before this one, and needs none of them again."""
        if step != self.arrived:
            self.arrived = step
            self.note({"arrived": step})

    def force_lines(self):
        """Syncs a file: a note that outlived its lines would count others, which a resumed run writes in their place."""
        for name in FILES:
            sync(self.run.path / name)

    def end(self, ending):
        self.last_end = {"ended": ending, "end": self.reached()}
        self.note(self.last_end)

    def is_complete(self, ending):
        """Returns whether everything was sent, and the run had ended this way."""
        return self.last_end == {"ended": ending, "end": self.reached()}

    def from_step(self, step):
        """Returns the noted batches that the tracker may lack parts of; `step` is the first item that it does not have."""
        first = max((index for index, batch in enumerate(self.batches) if batch.step <= step), default=0)
        return self.batches[first:]

    def close(self):
        self.file.close()

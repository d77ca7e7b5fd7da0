# SPDX-License-Identifier: MIT
import dataclasses
import fcntl
import json
import os
import secrets

from ddprun.errors import UserError
from tooling.durable import make_folder, sync, sync_folder
from tooling.rows import read_lines

FILES = ("metrics.jsonl", "tables.jsonl", "events.jsonl")


def open_no_link(path, flags):
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


@dataclasses.dataclass
class Batch:
    """Lines that are sent together: from each file those between two bytes. The first of their items has the number `first`."""

    first: int
    begin: dict
    end: dict


class Followed(UserError):
    """Another process follows the run."""


class Journal:
    """<run>/wandb/follow.jsonl, by the tracker's name: the tracker's run that this folder belongs to, and which lines are
    which of its items: a tracker can say how many it has, but three files grow at the same time.

    A batch is noted before it is sent, and never changes: a follower that comes after one that was killed in the middle of it
    continues with the very same items. Locked while it is open, so that no two follow the same run.
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
        self.known, self.batches = {}, []  # the newest of each note; the batches
        lines, whole = read_lines(folder / "follow.jsonl")
        if self.file.seek(0, os.SEEK_END) > whole:
            self.file.write(b"\n")  # behind the half line of one that was killed
        for line in lines:
            if "first" in line:
                self.batches.append(Batch(line["first"], self.reached(), line["end"]))
            else:
                self.known |= line
        if "word" not in self.known:  # marks the tracker's run, and is noted before there is one
            self.note(word=secrets.token_hex(16))

    def note(self, **values):
        self.known |= values
        self.write(values)

    def write(self, line):
        self.file.write(json.dumps(line).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def reached(self):
        """Returns the ends of the last lines that were noted."""
        return self.batches[-1].end if self.batches else dict.fromkeys(FILES, 0)

    def add(self, first, end):
        """Notes a batch. A note that outlived its lines would count others, which a resumed run writes in their place: they
        are on the disk before.
        """
        for name in FILES:
            sync(self.run.path / name)
        self.write({"first": first, "end": end})
        self.batches.append(Batch(first, self.reached(), end))
        return self.batches[-1]

    def batches_at(self, number):
        """Returns the batches whose items all come before this one, but for the last batch, and the others."""
        begin = max((index for index, batch in enumerate(self.batches) if batch.first <= number), default=0)
        return self.batches[:begin], self.batches[begin:]

    def close(self):
        self.file.close()

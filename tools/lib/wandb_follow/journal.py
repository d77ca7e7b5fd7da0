# SPDX-License-Identifier: MIT
import dataclasses
import fcntl
import json
import os

from ddprun.errors import UserError
from ddprun.rows import read_lines
from tooling.durable import make_folder, sync, sync_folder

FILES = ("metrics.jsonl", "tables.jsonl", "events.jsonl")


@dataclasses.dataclass
class Batch:
    """Lines that are sent together: from each file those between two bytes. The first has W&B's step `step`."""

    step: int
    begin: dict
    end: dict


class Journal:
    """<run>/wandb/follow.jsonl: the W&B run that this folder belongs to, and which lines get which of its steps.

    A batch is noted before it is sent, and never changes: whoever was killed in the middle of it can ask W&B how far it
    came, and go on with the very same rows and steps. Locked while it is open, so that no two follow the same run.
    """

    def __init__(self, run):
        self.run, folder = run, run.path / "wandb"
        try:
            make_folder(folder)
            self.file = open(folder / "follow.jsonl", "a+b")
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sync_folder(folder)
        except BlockingIOError:
            raise UserError(f"{run.path} is followed already, by another tools/wandb_follow") from None
        except OSError as error:
            raise UserError(f"cannot write {error.filename or folder}: {error.strerror}") from None
        self.header, self.batches, self.last_end = {}, [], None
        self.read(folder / "follow.jsonl")

    def read(self, file):
        lines, whole = read_lines(file)
        if self.file.seek(0, os.SEEK_END) > whole:
            self.file.write(b"\n")  # behind the half line of one that was killed
        for line in lines:
            if "id" in line:
                self.header = line
            elif "step" in line:
                self.batches.append(Batch(line["step"], self.reached(), line["end"]))
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

    def force_lines(self):
        """Syncs a file: a note that outlived its lines would count others, which a resumed run writes in their place."""
        for name in FILES:
            sync(self.run.path / name)

    def end(self, summary):
        self.last_end = {"ended": summary, "end": self.reached()}
        self.note(self.last_end)

    def is_complete(self, summary):
        """Returns whether everything was sent, and the run had ended this way."""
        return self.last_end == {"ended": summary, "end": self.reached()}

    def from_step(self, step):
        """Returns the noted batches that W&B may lack parts of; `step` is the first step that it does not have."""
        first = max((index for index, batch in enumerate(self.batches) if batch.step <= step), default=0)
        return self.batches[first:]

    def close(self):
        self.file.close()

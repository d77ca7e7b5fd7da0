# SPDX-License-Identifier: MIT
"""What the tests of power cuts share: recording what a command does to a disk, and the states that a cut at each point may leave."""

import dataclasses
import os
import pathlib
import random
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/end_to_end"), str(ROOT / "sdk/python")]

from command import NIGHTLY, CommandTest  # noqa: E402
from disk import EXTREMES, Disk, read_in, read_record, write_out  # noqa: E402
from run_history import Lost  # noqa: E402

SEED = int(os.environ.get("CRASH_SEED", "1"))
CHANCES = 100 if NIGHTLY else 4  # random losses at each point, beside the extreme ones

# A network of some kilobytes on a few samples; three steps per epoch, a checkpoint after steps 2, 3 or not, 4 and 6.
TINY = ["experiments/digits.yaml", "model=mlp", "model.hidden=8", "launch.threads=1", "launch.device=cpu", "~early_stopping",
        "dataset.train_size=130", "dataset.val_size=8", "dataset.test_size=8", "trainer.log_every=1", "trainer.max_epochs=2",
        "checkpoint.every=2st", "checkpoint.keep=1", "predictions={num_batches_to_log: 1}", "loggers=[jsonl, csv, tensorboard]"]


@dataclasses.dataclass
class Cut:
    """What a disk holds after a cut behind the operation of this number, with these losses."""

    number: int
    operation: object
    how: str
    state: dict

    def __str__(self):
        return f"power cut after {self.number}: {self.operation} ({self.how}; CRASH_SEED={SEED})"


class RecordedTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.disk, self.log = self.folder / "disk", self.folder / "record"
        self.disk.mkdir()

    def recording(self, fail=""):
        """The environment of a program that is recorded."""
        return {"LD_PRELOAD": os.environ["CRASH_RECORDER"], "CRASH_FOLDER": str(self.disk), "CRASH_LOG": str(self.log), "CRASH_FAIL": fail}

    def record(self, *words, code=0, env=None):
        """A run of ddprun, behind what was recorded before."""
        return self.ddprun(*words, code=code, env=self.recording() | (env or {}))

    def cuts(self, history):
        """Each state once. Last come those of a cut after the end, which `history` is informed of."""
        chance, disk, seen = random.Random(SEED), Disk(), set()
        operations = read_record(self.log, self.disk)
        for number, operation in enumerate([*operations, None], 1):
            if operation is None:
                history.end(disk)
            else:
                disk.apply(operation)
                history.observe(operation, disk)
            for how in (*EXTREMES, *["any"] * CHANCES):
                state = disk.after_cut(chance, how)
                key = hash((frozenset(state.items()), operation is None))
                if key not in seen:
                    seen.add(key)
                    yield Cut(number, operation or "the end", how, state)
        self.assertEqual(read_in(self.disk), disk.as_seen(), "the recorder has missed something")

    def check_all(self, history):
        """Every cut keeps what was promised. Returns them."""
        cuts, lost = [], {}
        for cut in self.cuts(history):
            cuts.append(cut)
            try:
                history.check(cut.state)
            except Lost as error:
                kind = re.sub(r"\d+", "N", str(error).partition(":")[0])
                lost.setdefault(kind, []).append(f"{cut}\n    {error}")
        if lost:
            self.fail("\n".join(f"{len(each)} of {len(cuts)} disks, first: {each[0]}" for each in lost.values()))
        return cuts

    def sample(self, cuts, count):
        return random.Random(SEED).sample(cuts, min(count, len(cuts)))

    def restore(self, cut):
        """As files. Returns the folder that takes the disk's place."""
        folder = self.folder / f"cut_{cut.number}_{len(list(self.folder.glob('cut_*')))}"
        folder.mkdir()
        write_out(cut.state, folder)
        return folder

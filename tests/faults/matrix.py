# SPDX-License-Identifier: MIT
"""The faults that are tried: every kind at every point, each in several worlds and on several ranks."""

import dataclasses
import itertools
import math

KINDS = ("kill", "segv", "abort", "exit", "throw", "stop", "hang")
STEP_POINTS = ("starting", "loading_data", "computing", "agreeing", "evaluating", "saving")
SAVE_POINTS = ("begin", "rank_file", "model_file", "training_file", "before_manifest", "before_rename", "after_rename",
               "before_prune", "done")
OF_RANK_0 = ("model_file", "training_file", "before_manifest", "before_rename", "after_rename", "before_prune")
WORLDS = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 2), (1, 4))  # nodes, workers on each
PLACES = tuple((nodes, workers, rank) for nodes, workers in WORLDS for rank in range(nodes * workers))
PER_PAIR = 3  # places tried for each kind at each point

EVERY = 2        # steps between checkpoints
SAVED_STEP = 4   # at which a fault of saving strikes
EPOCH_STEP = 7   # of the first evaluation


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str
    point: str
    nodes: int
    workers: int
    rank: int

    @property
    def step(self):
        return {"starting": 0, "evaluating": EPOCH_STEP}.get(self.point, SAVED_STEP)

    @property
    def finished_checkpoint(self):
        """The step of the newest checkpoint that is whole when the fault strikes; 0: there is none."""
        if self.point == "starting":
            return 0
        if self.point in ("loading_data", "computing", "after_rename", "before_prune", "done"):
            return SAVED_STEP
        return EPOCH_STEP - 1 if self.point == "evaluating" else SAVED_STEP - EVERY

    @property
    def is_told_by_all(self):
        """An error while files are written is an error of every rank, like a full disk, and no restart would cure it."""
        written_together = (*OF_RANK_0[:5], "rank_file") + (("begin",) if self.rank == 0 else ())
        return self.kind == "throw" and self.point in written_together

    @property
    def hangs(self):
        return self.kind in ("stop", "hang") and self.point != "starting"

    @property
    def variable(self):
        return f"{self.kind}:{self.point}:{self.step}:{self.rank}"

    def __str__(self):
        return f"{self.variable} on {self.nodes} x {self.workers}"


def is_possible(fault):
    if fault.point in OF_RANK_0 and fault.rank != 0:
        return False
    # A worker that never starts is for the scheduler's time limit to end: starting may take as long as it likes.
    return not (fault.kind in ("stop", "hang") and fault.point == "starting")


def whole():
    """All faults, in an order that mixes kinds, points and worlds."""
    places = itertools.cycle(PLACES)
    faults = []
    for _, point, kind in itertools.product(range(PER_PAIR), STEP_POINTS + SAVE_POINTS, KINDS):
        tried = (Fault(kind, point, *next(places)) for _ in PLACES)
        fault = next((fault for fault in tried if is_possible(fault) and fault not in faults), None)
        if fault:
            faults.append(fault)
    return faults


def sample(count):
    """So many of them, of different kinds, points and worlds: in steps that have no factor in common with their number."""
    faults = whole()
    stride = next(stride for stride in itertools.count(round(0.618 * len(faults))) if math.gcd(stride, len(faults)) == 1)
    return [faults[index * stride % len(faults)] for index in range(count)]

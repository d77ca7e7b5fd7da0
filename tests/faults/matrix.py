# SPDX-License-Identifier: MIT
"""The faults that are tried: every kind at every point where it can strike, each in several worlds and on several ranks."""

import dataclasses
import enum
import itertools

STEP_POINTS = ("starting", "loading_data", "computing", "agreeing", "evaluating", "saving")
SAVE_POINTS = ("begin", "rank_file", "model_file", "training_file", "before_manifest", "before_rename", "after_rename",
               "before_prune", "done")
POINTS = STEP_POINTS + SAVE_POINTS
OF_RANK_0 = ("model_file", "training_file", "before_manifest", "before_rename", "after_rename", "before_prune")
WORLDS = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 2), (1, 4))  # nodes, workers on each
PLACES = tuple((nodes, workers, rank) for nodes, workers in WORLDS for rank in range(nodes * workers))

EVERY = 2        # steps between checkpoints
SAVED_STEP = 4   # at which a fault of saving strikes
EPOCH_STEP = 7   # of the first evaluation


class Outcome(enum.Enum):
    RESTARTS = "the attempt ends on all ranks, and the run goes on from its last checkpoint"
    FAILS = "the run ends, all ranks say why, and `ddprun resume` goes on from its last checkpoint"
    GOES_ON = "nothing ends"


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    injected: str                # the kind of DDPRUN_FAULT
    points: tuple = POINTS
    outcome: Outcome = Outcome.RESTARTS
    message: str = ""            # with Outcome.FAILS
    words: tuple = ()            # of the command
    least_world: int = 1
    tried: int = 3               # places at each point
    while_stopped: bool = False  # what it is happens from outside, to a worker that is stopped at the point
    leaves_out: bool = False     # the step's batch: the numbers are not those of a run without a fault, but equal among such runs


def deaths():
    for name in ("kill", "segv", "abort", "exit"):
        yield Kind(name, name)
    yield Kind("throw", "throw", message="an injected fault")
    for name in ("stop", "hang"):  # one that never starts is for the scheduler's time limit to end: starting may take long
        yield Kind(name, name, points=POINTS[1:])
    yield Kind("cut", "cut", least_world=2, tried=2)


def numbers():
    yield Kind("nan_stop", "nan", points=("computing",), outcome=Outcome.FAILS, message="the gradients are not finite")
    for name in ("skip", "rollback"):
        yield Kind(f"nan_{name}", "nan", points=("computing",), outcome=Outcome.GOES_ON, leaves_out=True,
                   words=(f"trainer.on_nonfinite={name}",))


def disks():
    yield Kind("slow", "slow", outcome=Outcome.GOES_ON, tried=1)
    unhurried = {"injected": "stop", "while_stopped": True, "words": ("launch.hang_seconds=60",)}
    saving = ("saving", *SAVE_POINTS)
    yield Kind("full", points=saving, outcome=Outcome.FAILS, message="No space left on device", tried=2, **unhurried)
    yield Kind("read_only", points=saving, outcome=Outcome.FAILS, message="Read-only file system", tried=1, **unhurried)
    yield Kind("flip", points=POINTS[1:], tried=1, **unhurried)  # of a bit of the newest finished checkpoint


KINDS = (*deaths(), *numbers(), *disks())


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: Kind
    point: str
    nodes: int
    workers: int
    rank: int

    @property
    def world_size(self):
        return self.nodes * self.workers

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
    def resumed_steps(self):
        """Where the run may go on; 0: from its start."""
        if self.kind.name == "flip":
            return {self.finished_checkpoint - EVERY}
        if self.kind.name == "full" and self.point == "before_rename":
            return {SAVED_STEP}  # a new name takes no space
        if self.kind.name == "cut" and self.point in ("before_manifest", "before_rename"):
            return {SAVED_STEP}  # rank 0 needs the others only afterwards
        return {self.finished_checkpoint}

    @property
    def outcome(self):
        """An error while files are written is an error of every rank, like a full disk, and no restart would cure it."""
        written_together = (*OF_RANK_0[:5], "rank_file") + (("begin",) if self.rank == 0 else ())
        return Outcome.FAILS if self.kind.name == "throw" and self.point in written_together else self.kind.outcome

    @property
    def is_told_with_its_rank(self):
        return self.kind.name in ("stop", "hang") and self.world_size > 1 and self.point not in OF_RANK_0

    @property
    def variable(self):
        return f"{self.kind.injected}:{self.point}:{self.step}:{self.rank}"

    def __str__(self):
        return f"{self.kind.name}:{self.point}:{self.step}:{self.rank} on {self.nodes} x {self.workers}"


def is_possible(fault):
    return fault.world_size >= fault.kind.least_world and (fault.rank == 0 or fault.point not in OF_RANK_0)


def whole():
    """All faults, in an order that mixes kinds, points and worlds."""
    places = itertools.cycle(PLACES)
    faults = []
    for number, point, kind in itertools.product(range(max(kind.tried for kind in KINDS)), POINTS, KINDS):
        if point not in kind.points or number >= kind.tried:
            continue
        tried = (Fault(kind, point, *next(places)) for _ in PLACES)
        fault = next((fault for fault in tried if is_possible(fault) and fault not in faults), None)
        if fault:
            faults.append(fault)
    return faults


def sample(count):
    """So many of them, each kind in turn, those of a kind at points that lie far apart."""
    faults = whole()
    turns = -(-count // len(KINDS))
    chosen = []
    for turn, (index, kind) in itertools.product(range(turns), enumerate(KINDS)):
        candidates = sorted((fault for fault in faults if fault.kind is kind), key=lambda fault: POINTS.index(fault.point))
        chosen.append(candidates[int((0.618 * index + turn / turns) % 1 * len(candidates))])
    return chosen[:count]

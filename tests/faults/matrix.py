# SPDX-License-Identifier: MIT
"""The faults that are tried: every kind at every point where it can strike, each in several worlds and on several ranks."""

import dataclasses
import enum
import itertools

from command import DDPRUN

STEP_POINTS = ("starting", "loading_data", "computing", "agreeing", "evaluating", "saving")
SAVE_POINTS = ("begin", "created", "rank_file", "model_file", "state_file", "own_part", "compared", "before_manifest",
               "before_rename", "after_rename", "before_prune", "done")
POINTS = STEP_POINTS + SAVE_POINTS
OF_RANK_0 = ("created", "rank_file", "model_file", "state_file", "compared", "before_manifest", "before_rename", "after_rename",
             "before_prune")
OF_SHARED = ("created", "own_part", "compared")  # of a checkpoint that all ranks write, with trainer.shard_optimizer
WORLDS = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 2), (1, 4))  # nodes, workers on each
PLACES = tuple((nodes, workers, rank) for nodes, workers in WORLDS for rank in range(nodes * workers))

# A logger that has started a program in rank 0's process group, and one in a session of its own.
WITH_CHILDREN = f"loggers=[console, jsonl, {{plugin: {DDPRUN.parent.parent}/tests/fault_plugins/brittle_logger.so, child: true}}]"
EVERY = 2        # steps between checkpoints
SAVED_STEP = 4   # at which a fault of saving strikes
EPOCH_STEP = 7   # of the first evaluation
# Of silence, after which a rank or a node is given up: more than a busy machine keeps one waiting that is well.
SILENCE = 4
HANGS = (f"launch.hang_seconds={SILENCE}",)
LOSES_NODES = {"message": f"silent for {SILENCE} s", "words": (f"launch.node_timeout_seconds={SILENCE}", "launch.max_restarts=0")}


class Outcome(enum.Enum):
    RESTARTS = "the attempt ends on all ranks, and the run continues from its last checkpoint"
    FAILS = "the run ends, all ranks say why, and `ddprun resume` continues from its last checkpoint"
    LOST = "the other nodes end within their limit, the frozen one once it continues, and `ddprun resume` does from the last checkpoint"
    REFUSED = "the run ends, for nothing that it could continue from is whole; with the broken moved away it begins anew"
    CONTINUES = "nothing ends"


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    injected: str                # the kind of DDPRUN_FAULT
    points: tuple = POINTS
    outcome: Outcome = Outcome.RESTARTS
    message: str = ""            # with Outcome.FAILS and Outcome.LOST
    words: tuple = ()            # of the command
    preloaded: str = ""          # the variable of the environment that names a library for all processes
    least_world: int = 1
    least_nodes: int = 1
    tried: int = 3               # places at each point
    while_stopped: bool = False  # what it is happens from outside, to a worker that is stopped at the point
    leaves_out: bool = False     # the step's batch: the numbers are not those of a run without a fault, but equal among such runs


def deaths():
    for name in ("kill", "segv", "abort", "exit"):
        yield Kind(name, name)
    yield Kind("throw", "throw", message="an injected fault")
    for name in ("stop", "hang"):  # one that never starts is for the scheduler's time limit to end: starting may take long
        yield Kind(name, name, points=POINTS[1:], words=HANGS)
    yield Kind("cut", "cut", least_world=2, tried=2, words=HANGS)
    yield Kind("corrupt", "corrupt", points=("loading_data", "computing", "agreeing"), least_world=2)
    yield Kind("clock", "kill", preloaded="LEAPING_CLOCK", tried=1)
    yield Kind("frozen", "stop", points=POINTS[1:], outcome=Outcome.LOST, least_nodes=2, tried=1,
               while_stopped=True, **LOSES_NODES)  # with the launcher and all workers of its node
    yield Kind("mute", "stop", points=POINTS[1:], outcome=Outcome.LOST, least_nodes=2, tried=1,
               while_stopped=True, **LOSES_NODES)  # with its launcher, not the node's other workers; it continues before that does
    yield Kind("orphans", "kill", tried=1, words=(WITH_CHILDREN,))


def numbers():
    yield Kind("nan_stop", "nan", points=("computing",), outcome=Outcome.FAILS, message="the gradients are not finite")
    for name in ("skip", "rollback"):
        yield Kind(f"nan_{name}", "nan", points=("computing",), outcome=Outcome.CONTINUES, leaves_out=True,
                   words=(f"trainer.on_nonfinite={name}",))


def disks():
    yield Kind("slow", "slow", outcome=Outcome.CONTINUES, tried=1)
    unhurried = {"injected": "stop", "while_stopped": True}
    saving = ("saving", *SAVE_POINTS)
    yield Kind("full", points=saving, outcome=Outcome.FAILS, message="No space left on device", tried=2, **unhurried)
    yield Kind("read_only", points=saving, outcome=Outcome.FAILS, message="Read-only file system", tried=1, **unhurried)
    settled = tuple(point for point in POINTS[1:] if point != "saving")
    yield Kind("flip", points=settled, tried=1, **unhurried)  # of a bit of the newest finished checkpoint


KINDS = (*deaths(), *numbers(), *disks())


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: Kind
    point: str
    asynchronous: bool  # checkpoint.async; else training waits for each checkpoint
    nodes: int
    workers: int
    rank: int

    @property
    def world_size(self):
        return self.nodes * self.workers

    @property
    def is_shared(self):
        """Whether workers share the optimizer."""
        return self.point in OF_SHARED or self.asynchronous == (self.rank % 2 == 0)

    @property
    def step(self):
        return {"starting": 0, "evaluating": EPOCH_STEP}.get(self.point, SAVED_STEP)

    @property
    def saved_steps(self):
        """Of which one is that of the newest whole checkpoint when the fault has struck; 0: there is none. A point of the training
        thread may come before the end of the save that was begun last; one of a save comes after the end of the save before."""
        if self.point == "starting":
            return {0}
        if self.point == "begin" and self.rank > 0 and not self.is_shared:
            return {SAVED_STEP - EVERY, SAVED_STEP}  # rank 0 writes without it
        if self.point in SAVE_POINTS:
            whole = SAVE_POINTS.index(self.point) >= SAVE_POINTS.index("after_rename")
            return {SAVED_STEP} if whole else {SAVED_STEP - EVERY}
        begun = {"evaluating": EPOCH_STEP - 1, "agreeing": SAVED_STEP - EVERY}.get(self.point, SAVED_STEP)
        if self.point == "saving":  # which continues while training waits for it
            return {SAVED_STEP - EVERY, SAVED_STEP}
        return {begun - EVERY, begun} if self.asynchronous else {begun}

    @property
    def resumed_steps(self):
        """Of which one is where the run continues; 0: at its start."""
        if self.kind.name == "flip":
            return {step - EVERY for step in self.saved_steps}
        if self.kind.name == "full" and self.point == "before_rename":
            return {SAVED_STEP}  # a new name takes no space
        if self.kind.name in ("cut", "frozen", "mute") and self.point in SAVE_POINTS:
            return self.saved_steps | {SAVED_STEP}  # where the ranks meet may be a file, or not be needed any more
        return self.saved_steps

    @property
    def outcome(self):
        """An error while files are written is an error of every rank, like a full disk, and no restart would cure it."""
        if self.kind.name == "flip" and self.resumed_steps == {0}:
            return Outcome.REFUSED
        written = SAVE_POINTS[1:-2]
        return Outcome.FAILS if self.kind.name == "throw" and self.point in written else self.kind.outcome

    @property
    def is_reported_with_its_rank(self):
        return self.kind.name in ("stop", "hang") and self.world_size > 1 and self.point in STEP_POINTS

    @property
    def variable(self):
        return f"{self.kind.injected}:{self.point}:{self.step}:{self.rank}"

    def __str__(self):
        mode = "async" if self.asynchronous else "sync"
        return f"{self.kind.name}:{self.point}:{self.step}:{self.rank} on {self.nodes} x {self.workers}, {mode}"


def is_possible(fault):
    if fault.asynchronous and fault.point == "saving":
        return False  # training may not have to wait
    if fault.asynchronous and fault.kind.while_stopped and fault.point not in SAVE_POINTS:
        return False  # nobody knows what is being written meanwhile
    if fault.kind.name in ("full", "read_only", "flip") and fault.point == "begin" and fault.rank > 0:
        return False  # nor here
    least_world = max(fault.kind.least_world, 2 if fault.point in OF_SHARED else 1)
    large_enough = fault.world_size >= least_world and fault.nodes >= fault.kind.least_nodes
    return large_enough and (fault.rank == 0 or fault.point not in OF_RANK_0)


def whole():
    """All faults, in an order that mixes kinds, points and worlds."""
    places = itertools.cycle(PLACES)
    faults = []
    for number, point, kind in itertools.product(range(max(kind.tried for kind in KINDS)), POINTS, KINDS):
        if point not in kind.points or number >= kind.tried:
            continue
        asynchronous = (number + POINTS.index(point) + KINDS.index(kind)) % 2 == 1
        tried = (Fault(kind, point, mode, *next(places)) for mode in (asynchronous, not asynchronous) for _ in PLACES)
        fault = next((fault for fault in tried if is_possible(fault) and fault not in faults), None)
        if fault:
            faults.append(fault)
    return faults


def sample(count):
    """So many of them, each kind in turn, those of a kind at points that lie far apart, and where it can be at another for each."""
    faults = whole()
    turns = -(-count // len(KINDS))
    chosen = []
    for turn, (index, kind) in itertools.product(range(turns), enumerate(KINDS)):
        candidates = sorted((fault for fault in faults if fault.kind is kind), key=lambda fault: POINTS.index(fault.point))
        first = int((0.618 * index + turn / turns) % 1 * len(candidates))
        in_turn = candidates[first:] + candidates[:first]
        points = {fault.point for fault in chosen}
        chosen.append(next((fault for fault in in_turn if fault.point not in points), in_turn[0]))
    return chosen[:count]

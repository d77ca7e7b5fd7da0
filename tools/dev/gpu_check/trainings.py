"""One training of ddprun or of a peer, and what was measured in it."""

import dataclasses
import pathlib
import shutil
import tempfile

import ddprun
from suite import process, sides


@dataclasses.dataclass(frozen=True)
class Job:
    """What is trained: the same for all sides of a table, but for what fits one side alone."""

    batch: int
    steps: int
    warm_up: int  # steps before the measured ones; the loss is read every so many
    experiment: str  # of ddprun
    overrides: tuple = ()
    words: tuple = ()  # of the peer's script


@dataclasses.dataclass(frozen=True)
class Measured:
    images_per_second: float  # by the wall clock, after the warm-up
    losses: dict  # of the steps at which they were read
    seconds: float  # the whole command; of a peer that stands by, nothing
    first_step_seconds: float = float("nan")  # from the command on
    test_correct: int = 0
    test_total: int = 0
    summary: dict = dataclasses.field(default_factory=dict)  # ddprun's

    @property
    def loss(self):
        return self.losses[max(self.losses)]


class Trainer:
    """Runs ddprun with the settings that all tables share."""

    def __init__(self, program, device, folder, threads, environment=None):
        self.program = str(program)
        self.device = device
        self.folder = pathlib.Path(folder)
        self.threads = threads  # 0: as ddprun chooses
        self.environment = environment or {}

    def command(self, job, run_dir):
        return [
            self.program,
            f"experiments/{job.experiment}.yaml",
            "checkpoint.every=never",
            "trainer.eval_every=never",
            "trainer.max_epochs=100000",
            f"trainer.max_steps={job.steps}",
            f"trainer.global_batch={job.batch}",
            f"trainer.log_every={job.warm_up}",
            f"launch.device={self.device}",
            "launch.workers=1",
            *([f"launch.threads={self.threads}"] if self.threads else []),
            f"run.dir={run_dir}",
            *job.overrides,
        ]

    def train(self, job, seconds):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=self.folder))
        run_dir = folder / "run"
        finished = process.run(self.command(job, run_dir), self.environment, folder, seconds)
        summary = ddprun.run(run_dir).summary
        rows = {row["step"]: row for row in sides.read_rows(run_dir, "train")}
        shutil.rmtree(folder)  # of a failed one it stays
        return Measured(
            images_per_second=speed({step: row["time"] for step, row in rows.items()}, job),
            losses={step: row["loss"] for step, row in rows.items()},
            seconds=finished.seconds,
            first_step_seconds=summary["first_step_seconds"],
            test_correct=summary.get("test_correct", 0),
            test_total=summary.get("test_total", 0),
            summary=summary,
        )


def speed(ended_at, job):
    """Returns the time from the end of the warm-up to the end of the last step."""
    last = max(ended_at)
    return (last - job.warm_up) * job.batch / (ended_at[last] - ended_at[job.warm_up])


def train_peer(standing, job, seconds):
    words = [f"--max-steps={job.steps}", f"--log-every={job.warm_up}", f"--global-batch={job.batch}", *job.words]
    found = standing.train(words, seconds)
    return Measured(
        images_per_second=speed({int(step): at for step, at in found["step_ended_at"].items()}, job),
        losses={int(step): loss for step, loss in found["losses"].items()},
        seconds=float("nan"),
        test_correct=found["test_correct"],
        test_total=found["test_total"],
    )

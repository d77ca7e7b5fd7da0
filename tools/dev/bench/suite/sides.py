"""What is compared: the same training, and the same figures measured the same way. ddprun's side; peers.py has Python's."""

import dataclasses
import math
import pathlib
import statistics
import time

import ddprun
from suite import process

IMAGES = 60_000  # of an epoch
TEST_IMAGES = 10_000


@dataclasses.dataclass(frozen=True)
class Job:
    """What is trained: MNIST, SGD 0.01 with momentum 0.9, no validation split, one evaluation of the test images in the end."""

    model: str = "convnet_bn"
    workers: int = 2
    threads: int = 1
    global_batch: int = 200
    steps: int = 300
    warm_up: int = 50  # the steps before the measured ones
    precision: str = "fp32"
    device: str = "cpu"

    @property
    def epochs(self):
        """So many that the steps are reached."""
        return math.ceil(self.steps * self.global_batch / IMAGES)


@dataclasses.dataclass(frozen=True)
class Result:
    images_per_second: float  # by the wall clock, all workers together, after the warm-up
    images_per_second_from_start: float  # the same, after the first step: with the warm-up
    loop_seconds: float  # from the end of the first step to the end of the last
    first_step_seconds: float  # from the start of the command to the end of the first optimizer step
    total_seconds: float  # the whole command, with one evaluation of the test images
    peak_rss_bytes: int  # of the largest worker
    loss: float
    test_correct: int
    evaluation_seconds: tuple = ()  # of each pass over the test images, where they are timed
    save_seconds: tuple = ()  # of each checkpoint: from the end of its step until it is written
    helper_cpu_share: float = 0  # processor time of a worker's other threads, over that of its main thread

    @property
    def evaluated_per_second(self):
        return TEST_IMAGES / statistics.median(self.evaluation_seconds)


def speeds(job, step_ended_at):
    """What follows from the times at which steps ended: at least the first, the warm-up's last and the last."""
    last = max(step_ended_at)

    def speed_after(step):
        return (last - step) * job.global_batch / (step_ended_at[last] - step_ended_at[step])

    return {
        "images_per_second": speed_after(job.warm_up),
        "images_per_second_from_start": speed_after(1),
        "loop_seconds": step_ended_at[last] - step_ended_at[1],
    }


def largest(finished):
    return max(worker.peak_rss_bytes for worker in finished.workers)


def helper_share(finished):
    return max(worker.other_threads_seconds / max(worker.main_thread_seconds, 1e-9) for worker in finished.workers)


def first_step_at(finished, summary):
    """Seconds since 1970. The launcher's own clock starts after its libraries are loaded; ours started before."""
    launched_at = float(finished.workers[0].environment["DDPRUN_STARTED_AT"]) + time.time() - time.monotonic()
    return launched_at + summary["first_step_seconds"]


def read_rows(run_dir, split):
    return [row for row in ddprun.run(run_dir).rows() if row["split"] == split]


class Ddprun:
    """ddprun with its usual loggers."""

    name = "ddprun"

    def __init__(self, program, environment=None, name=None, words=()):
        self.program = str(program)
        self.environment = environment or {}
        self.name = name or self.name
        self.words = words  # overrides of the experiment; later ones win

    def command(self, job, run_dir):
        return [
            self.program,
            "experiments/mnist.yaml",
            f"model={job.model}",
            "optimizer.lr=0.01",
            "optimizer.momentum=0.9",
            "dataset.validation=0",
            "~early_stopping",
            "checkpoint.every=never",
            f"trainer.max_epochs={job.epochs}",
            f"trainer.max_steps={job.steps}",
            f"trainer.global_batch={job.global_batch}",
            f"trainer.precision={job.precision}",
            f"trainer.log_every={job.warm_up}",
            "trainer.eval_every=never",
            f"launch.device={job.device}",
            f"launch.workers={job.workers}",
            f"launch.threads={job.threads}",
            f"run.dir={run_dir}",
            *self.words,
        ]

    def run(self, job, folder, timeout):
        return self.run_with_summary(job, folder, timeout)[0]

    def run_with_summary(self, job, folder, timeout):
        run_dir = pathlib.Path(folder) / "run"
        finished = process.run(self.command(job, run_dir), self.environment, folder, timeout)
        summary = ddprun.run(run_dir).summary
        train = read_rows(run_dir, "train")
        first_step = first_step_at(finished, summary)
        result = Result(
            **speeds(job, {1: first_step} | {row["step"]: row["time"] for row in train}),
            first_step_seconds=first_step - finished.started_at,
            total_seconds=finished.seconds,
            peak_rss_bytes=largest(finished),
            loss=train[-1]["loss"],
            test_correct=summary["test_correct"],
            evaluation_seconds=evaluation_seconds(train, read_rows(run_dir, "val")),
            save_seconds=save_seconds(train, run_dir / "checkpoints"),
            helper_cpu_share=helper_share(finished),
        )
        return result, summary


def evaluation_seconds(train, evaluations):
    """From the training row of a step to the row of its evaluation, where both are there."""
    ended_at = {row["step"]: row["time"] for row in train}
    return tuple(row["time"] - ended_at[row["step"]] for row in evaluations if row["step"] in ended_at)


def save_seconds(train, folder):
    """From the training row of a step to the moment its checkpoint got its name, where both are there."""
    names = {row["step"]: folder / f"step_{row['step']:08}" for row in train}
    return tuple(names[row["step"]].stat().st_ctime - row["time"] for row in train if names[row["step"]].exists())

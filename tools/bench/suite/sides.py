"""The programs that are compared: the same training, and the same figures measured the same way."""

import dataclasses
import json
import pathlib
import sys

from suite import process

PYTHON_SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "mnist_ddp.py"


@dataclasses.dataclass(frozen=True)
class Job:
    """What is trained: MNIST, one epoch at most, SGD 0.01 with momentum 0.9."""

    model: str = "convnet_bn"
    workers: int = 2
    threads: int = 1
    global_batch: int = 200
    steps: int = 300
    warm_up: int = 50  # the steps before the measured ones
    device: str = "cpu"


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
    helper_cpu_share: float  # processor time of a worker's other threads, over that of its main thread


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


class Ddprun:
    """ddprun with its usual loggers."""

    name = "ddprun"

    def __init__(self, program, environment=None, name=None):
        self.program = str(program)
        self.environment = environment or {}
        self.name = name or self.name

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
            "trainer.max_epochs=1",
            f"trainer.max_steps={job.steps}",
            f"trainer.global_batch={job.global_batch}",
            f"trainer.log_every={job.warm_up}",
            f"launch.device={job.device}",
            f"launch.workers={job.workers}",
            f"launch.threads={job.threads}",
            f"run.dir={run_dir}",
        ]

    def run(self, job, folder, timeout):
        return self.run_with_summary(job, folder, timeout)[0]

    def run_with_summary(self, job, folder, timeout):
        run_dir = pathlib.Path(folder) / "run"
        finished = process.run(self.command(job, run_dir), self.environment, folder, timeout)
        summary = json.loads((run_dir / "summary.json").read_text())
        rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
        train = [row for row in rows if row["split"] == "train"]
        # The launcher's own clock starts after its libraries are loaded; ours started before.
        launched_at = float(finished.workers[0].environment["DDPRUN_STARTED_AT"])
        first_step_at = launched_at + summary["first_step_seconds"]
        result = Result(
            **speeds(job, {1: first_step_at} | {row["step"]: row["time"] for row in train}),
            first_step_seconds=first_step_at - finished.started_at,
            total_seconds=finished.seconds,
            peak_rss_bytes=largest(finished),
            loss=train[-1]["loss"],
            test_correct=summary["test_correct"],
            helper_cpu_share=helper_share(finished),
        )
        return result, summary


class PlainPython:
    """mnist_ddp.py under torchrun."""

    name = "Python DDP"

    def __init__(self, data, num_workers=0):
        self.data = data  # holds MNIST/raw
        self.num_workers = num_workers

    def run(self, job, folder, timeout):
        output = pathlib.Path(folder) / "result.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(job.workers), str(PYTHON_SCRIPT)]
        command += ["--data", str(self.data), "--json", str(output), "--device", job.device]
        command += ["--max-steps", str(job.steps), "--global-batch", str(job.global_batch)]
        command += ["--log-every", str(job.warm_up), "--threads", str(job.threads)]
        command += ["--num-workers", str(self.num_workers)]
        environment = {"OMP_NUM_THREADS": str(job.threads)}
        finished = process.run(command, environment, folder, timeout)
        result = json.loads(output.read_text())
        return Result(
            **speeds(job, {int(step): at for step, at in result["step_ended_at"].items()}),
            first_step_seconds=result["first_step_seconds"],
            total_seconds=finished.seconds,
            peak_rss_bytes=largest(finished),
            loss=result["loss"],
            test_correct=result["test_correct"],
            helper_cpu_share=helper_share(finished),
        )

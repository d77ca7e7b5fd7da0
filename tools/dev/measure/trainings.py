"""One training of ddprun or of a peer, and what was measured in it: the same figures, measured the same way, for every
side."""

import dataclasses
import json
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

import ddprun
from measure import process

ROOT = pathlib.Path(__file__).resolve().parents[3]
PEERS = ROOT / "tools/dev/measure/peers"
# What ddprun sets itself: freed memory stays in the process.
KEEPS_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
                "MALLOC_TOP_PAD_": str(64 << 20)}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Job:
    """What is trained: the same for all sides of a case, but for what fits one side alone."""

    batch: int
    steps: int
    warm_up: int  # steps before the measured ones; the loss is read every so many
    experiment: str = "experiments/mnist.yaml"  # of ddprun
    overrides: tuple = ()  # later ones win
    words: tuple = ()  # of the peer's script
    workers: int = 1
    threads: int = 0  # 0: as ddprun chooses
    device: str = "cpu"


def mnist(model, precision="fp32"):
    """What a job has for ddprun and for the scripts: SGD 0.01 with momentum 0.9, one evaluation of the test images in
    the end."""
    overrides = (f"model={model}", "optimizer.lr=0.01", "optimizer.momentum=0.9", "dataset.validation=0", "~early_stopping",
                 f"trainer.precision={precision}")  # fmt: skip
    return {"overrides": overrides, "words": (f"--model={model}", f"--precision={precision}")}


class Ddprun:
    """The program, with the settings that all tables share."""

    def __init__(self, program, folder, environment=None):
        self.program = str(program)
        self.folder = pathlib.Path(folder)
        self.environment = environment or {}

    def command(self, job, run_dir):
        return [
            self.program,
            job.experiment,
            "checkpoint.every=never",
            "trainer.eval_every=never",
            "trainer.max_epochs=100000",
            f"trainer.max_steps={job.steps}",
            f"trainer.global_batch={job.batch}",
            f"trainer.log_every={job.warm_up}",
            f"launch.device={job.device}",
            f"launch.workers={job.workers}",
            *([f"launch.threads={job.threads}"] if job.threads else []),
            f"run.dir={run_dir}",
            *job.overrides,
        ]

    def train(self, job, seconds, environment=None, look=None):
        """Returns the figures; look(run folder) returns more. The folder of a run that failed stays."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=self.folder))
        run_dir = folder / "run"
        finished = process.run(self.command(job, run_dir), {**self.environment, **(environment or {})}, folder, seconds)
        run = ddprun.run(run_dir)
        train, evaluations = ([row for row in run.rows() if row["split"] == split] for split in ("train", "val"))
        first_step = first_step_at(finished, run.summary)
        found = {
            **speeds(job, {1: first_step} | {row["step"]: row["time"] for row in train}),
            **of_command(finished),
            "first_step_seconds": first_step - finished.started_at,
            "loss": train[-1]["loss"],
            "losses": {row["step"]: row["loss"] for row in train},
            "test_correct": run.summary.get("test_correct", 0),
            "test_total": run.summary.get("test_total", 0),
            **medians(
                evaluation_seconds=evaluation_seconds(train, evaluations),
                save_seconds=save_seconds(train, run_dir / "checkpoints"),
            ),
            "replayed_steps": run.summary.get("replayed_steps", 0),
            "summary": run.summary,
            **(look(run_dir) if look else {}),
        }
        shutil.rmtree(folder)
        return found


def speeds(job, ended_at):
    """What follows from the times at which steps ended: at least the warm-up's last and the last; of the first, too,
    where it is known."""
    last = max(ended_at)

    def speed_after(step):
        return (last - step) * job.batch / (ended_at[last] - ended_at[step])

    speed = speed_after(job.warm_up)
    found = {"images_per_second": speed, "step_ms": 1e3 * job.batch / speed}
    if 1 in ended_at:
        found |= {"images_per_second_from_start": speed_after(1), "loop_seconds": ended_at[last] - ended_at[1]}
    return found


def of_command(finished):
    """What is seen from outside: the command's time, and what the processes of its ranks took."""
    found = {"seconds": finished.seconds}
    if finished.workers:
        found["peak_rss_bytes"] = max(worker.peak_rss_bytes for worker in finished.workers)
        found["helper_cpu_share"] = max(worker.other_threads_seconds / max(worker.main_thread_seconds, 1e-9)
                                        for worker in finished.workers)  # fmt: skip
    return found


def medians(**lists):
    """Of those that are not empty, in one run."""
    return {name: statistics.median(values) for name, values in lists.items() if values}


def first_step_at(finished, summary):
    """Seconds since 1970. The launcher's own clock starts after its libraries are loaded; ours started before."""
    started_at = next((worker.place["started_at"] for worker in finished.workers if worker.place), None)
    launched_at = finished.started_at if started_at is None else started_at + time.time() - time.monotonic()
    return launched_at + summary["first_step_seconds"]


def evaluation_seconds(train, evaluations):
    """From the training row of a step to the row of its evaluation, where both are there."""
    ended_at = {row["step"]: row["time"] for row in train}
    return [row["time"] - ended_at[row["step"]] for row in evaluations if row["step"] in ended_at]


def save_seconds(train, folder):
    """From the training row of a step to the moment its checkpoint got its name, where both are there."""
    names = {row["step"]: folder / f"step_{row['step']:08}" for row in train}
    return [names[row["step"]].stat().st_ctime - row["time"] for row in train if names[row["step"]].exists()]


def torchrun(workers, script):
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(workers),
        str(script),
    ]


def train_script(command, job, seconds, folder, environment=None):
    """Starts a peer's script for one training, and returns the figures."""
    with tempfile.TemporaryDirectory(prefix="peer-", dir=folder) as made:
        answer = pathlib.Path(made) / "result.json"
        words = [
            *map(str, command),
            *words_of(job),
            f"--device={job.device}",
            f"--threads={job.threads}",
            f"--json={answer}",
        ]
        finished = process.run(words, {"OMP_NUM_THREADS": str(job.threads), **(environment or {})}, made, seconds)
        return {**figures_of_peer(json.loads(answer.read_text()), job), **of_command(finished)}


def train_standing(standing, job, seconds):
    """Has a script that stands by train once more; its start is in no figure."""
    return figures_of_peer(standing.train(words_of(job), seconds), job)


def words_of(job):
    return [f"--max-steps={job.steps}", f"--log-every={job.warm_up}", f"--global-batch={job.batch}", *job.words]


def figures_of_peer(found, job):
    return {
        **speeds(job, {int(step): at for step, at in found["step_ended_at"].items()}),
        "first_step_seconds": found["first_step_seconds"],
        "peak_rss_bytes": found["peak_rss_bytes"],
        "loss": found["loss"],
        "losses": {int(step): loss for step, loss in found["losses"].items()},
        "test_correct": found["test_correct"],
        "test_total": found["test_total"],
        **medians(evaluation_seconds=found["evaluation_seconds"], save_seconds=found["save_seconds"]),
    }

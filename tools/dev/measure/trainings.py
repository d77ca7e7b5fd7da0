"""One training of ddprun or of a peer, and what was measured in it: the same figures for every side."""

import dataclasses
import json
import pathlib
import shutil
import statistics
import tempfile
import time

from measure import process
from measure.runs import Ddprun

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
    experiment: str = "mnist"  # of ddprun
    overrides: tuple = ()  # later ones win
    words: tuple = ()  # of the peer's script
    workers: int = 1
    threads: int = 0  # 0: as ddprun chooses


def train(bench, job, seconds):
    """Trains with ddprun, and returns the figures. The folder of a run that failed stays."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=bench.folder))
    words = [
        "checkpoint.every=never",
        "trainer.eval_every=never",
        "trainer.max_epochs=100000",
        f"trainer.max_steps={job.steps}",
        f"trainer.global_batch={job.batch}",
        f"trainer.log_every={job.warm_up}",
        f"launch.workers={job.workers}",
        *([f"launch.threads={job.threads}"] if job.threads else []),
        *job.overrides,
    ]
    started_at = time.time()
    run = Ddprun(bench.program, folder, bench.device, bench.environment).train("run", job.experiment, words, timeout=seconds)
    found = figures(job, started_at, {row["step"]: row["time"] for row in run.rows()}, run.losses())
    summary = run.summary()
    shutil.rmtree(folder)
    return {**found, "peak_rss_bytes": summary.get("peak_rss_bytes", 0), "replayed_steps": summary.get("replayed_steps", 0),
            "summary": summary}  # fmt: skip


def train_script(bench, command, job, seconds, environment=None):
    """Starts a peer's script for one training, and returns the figures."""
    with tempfile.TemporaryDirectory(prefix="peer-", dir=bench.folder) as made:
        answer = pathlib.Path(made) / "result.json"
        threads = job.threads or 1
        words = [f"--max-steps={job.steps}", f"--log-every={job.warm_up}", f"--global-batch={job.batch}", *job.words,
                 f"--device={bench.device}", f"--threads={threads}", f"--json={answer}"]  # fmt: skip
        started_at = process.run([*command, *words], {"OMP_NUM_THREADS": str(threads), **(environment or {})}, made, seconds)
        found = json.loads(answer.read_text())
    ended_at, losses = ({int(step): value for step, value in found[name].items()} for name in ("step_ended_at", "losses"))
    return {**figures(job, started_at, ended_at, losses), "peak_rss_bytes": found["peak_rss_bytes"]}


def figures(job, started_at, ended_at, losses):
    """What follows from the times at which steps ended, at least the warm-up's last and the last, and from their losses."""
    last = max(ended_at)
    speed = (last - job.warm_up) * job.batch / (ended_at[last] - ended_at[job.warm_up])
    found = {"images_per_second": speed, "loss": statistics.mean(loss for step, loss in losses.items() if step > job.warm_up)}
    return {**found, "first_step_seconds": ended_at[1] - started_at} if 1 in ended_at else found

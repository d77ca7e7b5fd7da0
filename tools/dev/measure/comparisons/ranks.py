"""How time and memory grow with the number of ranks, beyond what one machine can hold: a row for each number, measured
once."""

import functools
import pathlib
import resource
import subprocess
import tempfile
import threading
import time

import ddprun
from measure import process, report
from measure.comparisons.python import SHARE_OF_MEMORY
from measure.rounds import Absent, Side
from measure.table import Case, Figure, Table
from measure.trainings import ROOT

WORKERS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
NODES = [8, 64, 256, 1024, 8192]
GLOO_RANKS = [8, 16, 32, 64, 128, 256]
WORLDS = [8, 64, 1024, 10_000]
SAMPLES = 1_000_000
STEPS = 3
OF_WORKERS = (
    Figure("first_step_seconds", "command to first step, s", 2),
    Figure("end_seconds", "last step to the end, s", 2),
    Figure("launcher_cpu_seconds", "launcher, CPU s", 2),
    Figure("worker_cpu_seconds", "each worker, CPU s", 2),
    Figure("launcher_bytes", "launcher, MB", 0, 1e-6),
    Figure("worker_bytes", "each worker, MB", 0, 1e-6),
)
OF_NODES = (
    Figure("join_seconds", "all have their order, s", 2),
    Figure("join_each", "server, CPU ms per node", 2, 1e3),
    Figure("store_seconds", "all have found their peers, s", 2),
    Figure("store_each", "server, CPU ms per worker", 2, 1e3),
    Figure("end_seconds", "all know of the end, s", 2),
    Figure("store_server_bytes_per_node", "server, kB per node", 0, 1e-3),
)
OF_GLOO = (
    Figure("files_per_rank", "files open per rank"),
    Figure("requests_per_rank", "requests to the store per rank"),
    Figure("value_bytes", "bytes of an address"),
    Figure("join_each", "joining, CPU ms per rank", 2, 1e3),
    Figure("sum_seconds", "a sum of 16 bytes, ms", 1, 1e3),
    Figure("sum_each", "CPU ms per rank", 2, 1e3),
)
OF_A_WORLD = (
    Figure("order_seconds", "order of an epoch, ms", 0, 1e3),
    Figure("slice_seconds", "a rank's slice, ns", 0, 1e9),
    Figure("row_bytes", "a row of 3 metrics, bytes"),
    Figure("step_bytes", "a step's agreement, bytes"),
    Figure("leader_seconds", "the leader saves, s", 2),
    Figure("manifest_bytes", "manifest, kB", 0, 1e-3),
    Figure("verify_seconds", "it verifies, s", 2),
    Figure("read_seconds", "it reads, ms", 1, 1e3),
)


class Watch:
    """The launcher and its workers, sampled from /proc: the most memory, the last processor time."""

    def __init__(self, pid):
        self.launcher_seconds = 0.0
        self.launcher_bytes = self.worker_bytes = self.workers = 0
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self):
        self._done.set()
        self._thread.join()

    def _work(self):
        while not self._done.wait(process.SAMPLE_SECONDS):
            try:
                self._look()
            except (OSError, StopIteration):
                pass  # one has just ended: the next look is without it

    def _look(self):
        self.launcher_seconds = sum(process.thread_seconds(str(self._pid)))
        self.launcher_bytes = max(self.launcher_bytes, pss(self._pid))
        children = pathlib.Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split()
        total = sum(map(pss, children))
        if children and total > self.worker_bytes:
            self.worker_bytes, self.workers = total, len(children)


def pss(pid):
    """Memory of the process, of what it shares with others its part."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        return next(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Pss:"))


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_workers(bench, workers, seen, timeout):
    """A few steps of the smallest training. `seen` has the memory of a worker so far."""
    if seen and seen[-1] * workers > SHARE_OF_MEMORY * report.free_bytes():
        raise Absent("too large for this machine")
    with tempfile.TemporaryDirectory(prefix="ranks-", dir=bench.folder) as name:
        folder = pathlib.Path(name)
        command = [bench.ddprun.program, "experiments/digits.yaml", "model=mlp", "dataset.train_size=1024", "dataset.val_size=64",
                   "dataset.test_size=64", "~early_stopping", f"launch.workers={workers}", "launch.device=cpu", "launch.threads=1",
                   f"trainer.max_steps={STEPS}", "trainer.global_batch=256", "trainer.log_every=1", f"run.dir={folder / 'run'}"]  # fmt: skip
        started_at, seconds_before = time.time(), children_seconds()
        with open(folder / "output.txt", "wb") as output:
            running = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
            watch = Watch(running.pid)
            try:
                status = running.wait(timeout)
            finally:
                process.stop(running)
                watch.stop()
        ended_at, seconds = time.time(), children_seconds() - seconds_before
        if status != 0:
            raise process.Failed(
                f"{workers} workers ended with {status}:\n{(folder / 'output.txt').read_text()[-3000:]}"
            )
        steps = [row["time"] for row in ddprun.run(folder / "run").rows() if row["split"] == "train"]
    seen.append(watch.worker_bytes / max(watch.workers, 1))
    return {"first_step_seconds": steps[0] - started_at, "end_seconds": ended_at - steps[-1],
            "launcher_cpu_seconds": watch.launcher_seconds, "launcher_bytes": watch.launcher_bytes,
            "worker_cpu_seconds": (seconds - watch.launcher_seconds) / workers, "worker_bytes": seen[-1]}  # fmt: skip


def probe(*words, timeout):
    return process.last_line([ROOT / "build/release/tools/scaling_probe", *words], timeout, {"GLOO_LOG_LEVEL": "ERROR"})


def rendezvous(nodes, timeout):
    found = probe("rendezvous", nodes, timeout=timeout)
    return {
        **found,
        "join_each": found["join_server_cpu_seconds"] / nodes,
        "store_each": found["store_server_cpu_seconds"] / nodes,
    }


def gloo(ranks, timeout):
    found = probe("gloo", ranks, timeout=timeout)
    return {**found, "join_each": found["join_cpu_seconds"] / ranks, "sum_each": found["sum_cpu_seconds"] / ranks}


def world(ranks, timeout):
    found = probe("world", ranks, SAMPLES, timeout=timeout)
    metrics = {"row_bytes": found["metrics"]["row"]["bytes"], "step_bytes": found["metrics"]["step"]["bytes"]}
    return {**found["samples"], **metrics, **found["checkpoint"]}


def cases(bench):
    process.build("scaling_probe")
    seen = []
    parts = {
        "workers": (WORKERS, lambda count, seconds: run_workers(bench, count, seen, seconds), OF_WORKERS),
        "nodes at the first one": (NODES, rendezvous, OF_NODES),
        "ranks of a Gloo group": (GLOO_RANKS, gloo, OF_GLOO),
        "ranks of a world, one of them": (WORLDS, world, OF_A_WORLD),
    }
    for name, (counts, run, figures) in parts.items():
        yield Case([Side(f"{count:,}", functools.partial(run, count)) for count in counts], figures, name=name)


TABLES = [Table("scaling", "how time and memory grow with the number of ranks, beyond what one machine can hold", cases,
                rounds=lambda _: 1)]  # fmt: skip

"""Table: how time and memory grow with the number of ranks, beyond what one machine can hold."""

import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import ddprun
from suite import machine, probes, process, report

TITLE = "How time and memory grow with the number of ranks"
WORKERS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
SHARE_OF_MEMORY = 0.85  # of what is free: no more workers than it holds
NODES = [8, 64, 256, 1024, 8192]
GLOO_RANKS = [8, 16, 32, 64, 128, 256]
WORLDS = [8, 64, 1024, 10_000]
SAMPLES = 1_000_000
STEPS = 3


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


def run_workers(program, workers, timeout):
    """A few steps of the smallest training."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-bench-"))
    command = [str(program), "experiments/digits.yaml", "model=mlp", "dataset.train_size=1024", "dataset.val_size=64",
               "dataset.test_size=64", "~early_stopping", f"launch.workers={workers}", "launch.device=cpu", "launch.threads=1",
               f"trainer.max_steps={STEPS}", "trainer.global_batch=256", "trainer.log_every=1", f"run.dir={folder / 'run'}"]
    try:
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
            raise process.Failed(f"{workers} workers ended with {status}:\n{(folder / 'output.txt').read_text()[-3000:]}")
        steps = [row["time"] for row in ddprun.run(folder / "run").rows() if row["split"] == "train"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"workers": workers, "first_step_seconds": steps[0] - started_at, "end_seconds": ended_at - steps[-1],
            "launcher_cpu_seconds": watch.launcher_seconds, "launcher_bytes": watch.launcher_bytes,
            "worker_cpu_seconds": (seconds - watch.launcher_seconds) / workers,
            "worker_bytes": watch.worker_bytes / max(watch.workers, 1)}


def probe(*words, timeout):
    return probes.run("scaling_probe", *words, timeout=timeout)


def measure_workers(options):
    figures = []
    for workers in WORKERS:
        if figures and figures[-1]["worker_bytes"] * workers > SHARE_OF_MEMORY * machine.free_bytes():
            break
        figures.append(run_workers(options.program, workers, options.timeout))
        print(figures[-1], file=sys.stderr, flush=True)
    header = ["workers", "command to first step, s", "last step to the end, s", "launcher, CPU s", "each worker, CPU s",
              "launcher, MB", "each worker, MB"]
    rows = [[f["workers"], f"{f['first_step_seconds']:.2f}", f"{f['end_seconds']:.2f}", f"{f['launcher_cpu_seconds']:.2f}",
             f"{f['worker_cpu_seconds']:.2f}", f"{f['launcher_bytes'] / 1e6:.0f}", f"{f['worker_bytes'] / 1e6:.0f}"] for f in figures]
    return figures, report.markdown(header, rows)


def measure_rendezvous(options):
    figures = [{"nodes": nodes} | probe("rendezvous", nodes, timeout=options.timeout) for nodes in NODES]
    header = ["nodes", "all have their order, s", "server, CPU ms per node", "all have found their peers, s",
              "server, CPU ms per worker", "all know of the end, s", "server, kB per node"]
    rows = [[f"{f['nodes']:,}", f"{f['join_seconds']:.2f}", f"{1e3 * f['join_server_cpu_seconds'] / f['nodes']:.2f}",
             f"{f['store_seconds']:.2f}", f"{1e3 * f['store_server_cpu_seconds'] / f['nodes']:.2f}", f"{f['end_seconds']:.2f}",
             f"{f['store_server_bytes_per_node'] / 1e3:.0f}"] for f in figures]
    return figures, report.markdown(header, rows)


def measure_gloo(options):
    figures = [{"ranks": ranks} | probe("gloo", ranks, timeout=options.timeout) for ranks in GLOO_RANKS]
    header = ["ranks", "files open per rank", "requests to the store per rank", "bytes of an address",
              "joining, CPU ms per rank", "a sum of 16 bytes, ms", "CPU ms per rank"]
    rows = [[f["ranks"], f"{f['files_per_rank']:.0f}", f"{f['requests_per_rank']:.0f}", f"{f['value_bytes']:.0f}",
             f"{1e3 * f['join_cpu_seconds'] / f['ranks']:.2f}", f"{1e3 * f['sum_seconds']:.1f}",
             f"{1e3 * f['sum_cpu_seconds'] / f['ranks']:.2f}"] for f in figures]
    return figures, report.markdown(header, rows)


def measure_worlds(options):
    figures = [{"ranks": ranks} | probe("world", ranks, SAMPLES, timeout=options.timeout) for ranks in WORLDS]
    header = ["world", "order of an epoch, ms", "a rank's slice, ns", "a row of 3 metrics, bytes", "a step's agreement, bytes",
              "the leader saves, s", "manifest, kB", "it verifies, s", "it reads, ms"]
    rows = []
    for f in figures:
        samples, metrics, saved = f["samples"], f["metrics"], f["checkpoint"]
        rows.append([f"{f['ranks']:,}", f"{1e3 * samples['order_seconds']:.0f}", f"{1e9 * samples['slice_seconds']:.0f}",
                     f"{metrics['row']['bytes']:,}", metrics["step"]["bytes"],
                     f"{saved['leader_seconds']:.2f}", f"{saved['manifest_bytes'] / 1e3:,.0f}", f"{saved['verify_seconds']:.2f}",
                     f"{1e3 * saved['read_seconds']:.1f}"])
    return figures, report.markdown(header, rows)


def measure(options):
    probes.build("scaling_probe")
    parts = {"Workers of one machine": measure_workers, "Launchers at the first node": measure_rendezvous,
             "A Gloo group": measure_gloo, "One rank of a large world": measure_worlds}
    figures, texts = {}, []
    for title, part in parts.items():
        figures[title], table = part(options)
        texts.append(f"### {title}\n\n{table}")
    return "\n\n".join(texts), figures

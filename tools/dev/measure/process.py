"""Runs a program to its end, and watches its workers' memory and processor time, the same way for every side."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[3]
SAMPLE_SECONDS = 0.1
MARK = "BENCH_RUN"  # an environment variable by which the processes of one run are told from all others
TICKS = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class Worker:
    """One rank's process: a process of the run that has RANK in its environment."""

    environment: dict
    place: dict  # what ddprun tells it besides; empty for all other programs
    peak_rss_bytes: int = 0
    main_thread_seconds: float = 0.0
    other_threads_seconds: float = 0.0


@dataclasses.dataclass
class Finished:
    started_at: float  # seconds since 1970, as all times
    seconds: float
    workers: list


class Failed(Exception):
    """The program did not end well; the text holds the end of its output."""


def run(command, environment, folder, timeout):
    """Runs it in `folder`, with `environment` added to ours; what it prints goes to output.txt there."""
    mark = uuid.uuid4().hex
    output = pathlib.Path(folder) / "output.txt"
    started_at = time.time()
    merged = {**os.environ, **environment, MARK: mark, "BENCH_STARTED_AT": repr(started_at)}
    with open(output, "wb") as file:
        process = subprocess.Popen(command, cwd=folder, env=merged, stdout=file, stderr=subprocess.STDOUT)
        watch = Watch(mark)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = f"no end within {timeout} s"
        finally:
            stop(process)
            seconds = time.time() - started_at
            watch.stop()
    if status != 0:
        raise Failed(f"{command[0]} ended with {status}:\n{output.read_text(errors='replace')[-3000:]}")
    return Finished(started_at, seconds, list(watch.workers.values()))


def stop(process):
    """Ends it where it still runs; ddprun and torchrun end their workers themselves."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()


def processes_with(variable, value):
    """Returns {id: environment} of all processes that have it in theirs."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path("/proc", entry, "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended, or is somebody else's
        if f"{variable}={value}".encode() in words:
            found[int(entry)] = dict(word.decode(errors="replace").partition("=")[::2] for word in words)
    return found


def kill_processes_with(variable, value):
    """Kills until none is left: what they start meanwhile has the variable too. One that is stuck in the kernel is left
    to it.
    """
    for _ in range(50):
        found = [pid for pid in processes_with(variable, value) if pid != os.getpid()]
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)


class Watch:
    """Samples /proc on a thread of its own. VmHWM is the kernel's own high-water mark, so samples may be rare."""

    def __init__(self, mark):
        self.workers = {}
        self._mark = f"{MARK}={mark}".encode()
        self._foreign = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join()

    def _work(self):
        while not self._stop.wait(SAMPLE_SECONDS):
            for entry in os.listdir("/proc"):
                if entry.isdigit() and entry not in self._foreign:
                    self._look_at(entry)

    def _look_at(self, pid):
        try:
            worker = self.workers.get(pid) or self._recognize(pid)
            if worker:
                worker.peak_rss_bytes = max(worker.peak_rss_bytes, peak_rss(pid))
                worker.main_thread_seconds, worker.other_threads_seconds = thread_seconds(pid)
        except (OSError, StopIteration):
            pass  # it has just ended: what was seen before stays

    def _recognize(self, pid):
        variables = pathlib.Path("/proc", pid, "environ").read_bytes().split(b"\0")
        if self._mark not in variables:
            if variables != [b""]:  # else it is between two programs
                self._foreign.add(pid)
            return None
        environment = dict(text.decode(errors="replace").split("=", 1) for text in variables if b"=" in text)
        if "RANK" not in environment:
            return None
        self.workers[pid] = Worker(environment, place_of(environment))
        return self.workers[pid]


def place_of(environment):
    try:
        return json.loads(pathlib.Path(environment["DDPRUN_PLACE"]).read_bytes())
    except (KeyError, FileNotFoundError):  # another program's worker, or the run has just ended
        return {}


def peak_rss(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def thread_seconds(pid):
    """Processor time of the main thread, and of all others that live."""
    main = others = 0.0
    for task in os.listdir(f"/proc/{pid}/task"):
        stat = pathlib.Path("/proc", pid, "task", task, "stat").read_text(errors="replace")
        fields = stat.rsplit(")", 1)[1].split()
        seconds = (int(fields[11]) + int(fields[12])) / TICKS
        if task == pid:
            main = seconds
        else:
            others += seconds
    return main, others


def build(target):
    """Compiles one of the programs that measure ddprun from the inside, which nothing but tables needs."""
    subprocess.run(
        [ROOT / ".venv/bin/cmake", "--build", ROOT / "build/release", "--target", target], check=True, stdout=sys.stderr
    )


def last_line(command, timeout, environment=None):
    """The JSON in the last line that the command prints."""
    words = [str(word) for word in command]
    ran = subprocess.run(
        words, capture_output=True, text=True, timeout=timeout, env={**os.environ, **(environment or {})}, check=False
    )
    if ran.returncode != 0:
        raise Failed(f"{' '.join(words)}: {ran.stderr[-3000:]}")
    return json.loads(ran.stdout.splitlines()[-1])

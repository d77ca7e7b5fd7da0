# SPDX-License-Identifier: MIT
"""What the tests of the command share: starting ddprun as a user does, watching it, reading what it leaves.

The program is named by $DDPRUN. Each test has a folder of its own, an empty home, and a mark in the environment of all
that it starts, by which processes are found wherever the kernel has put them.
"""

import atexit
import csv
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "sdk/python"))
from ddprun.fork_server import ForkServer  # noqa: E402

DDPRUN = pathlib.Path(os.environ["DDPRUN"]).resolve()
os.environ["DDPRUN_PROGRAM"] = str(DDPRUN)  # which the package asks
NIGHTLY = os.environ.get("DDPRUN_NIGHTLY") == "1"

# A network and data that train in a moment; ten steps per epoch, the last one of 34 samples instead of 64.
SMALL = [
    "experiments/digits.yaml",
    "dataset.train_size=610",
    "dataset.val_size=150",
    "dataset.test_size=301",
    "trainer.max_epochs=2",
    "trainer.log_every=2",
    "launch.threads=1",
    "launch.device=cpu",
    "~early_stopping",
]
VOLATILE = ("time", "attempt", "samples_per_second", "tokens_per_second", "model_flops_per_second", "mfu", "train_seconds",
            "evaluation_seconds")  # what differs between two runs that are the same


@functools.cache
def fork_server():
    """The one of this file's commands."""
    server = ForkServer(DDPRUN)
    atexit.register(server.end)  # waited for, so that its computing counts
    return server


@functools.cache
def shared_folder():
    """Of what all tests of this file read, and none changes."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-e2e-shared-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Running:
    """A started command, its program first; its output goes to files, so that nobody waits for a reader."""

    def __init__(self, command, folder, environment, stdout=None):
        files = [tempfile.mkstemp(dir=folder, prefix=f".{name}-") for name in ("out", "err")]
        self.out_file, self.err_file = (pathlib.Path(path) for _, path in files)
        words, out = list(map(str, command)), files[0][0] if stdout is None else stdout
        with open(os.devnull, "rb") as nothing:
            if words[0] == str(DDPRUN):
                streams = [stream if isinstance(stream, int) else stream.fileno() for stream in (nothing, out, files[1][0])]
                self.process = fork_server().start(words[1:], folder=folder, environment=environment, streams=streams)
            else:
                self.process = subprocess.Popen(words, cwd=folder, env=environment, stdin=nothing, stdout=out, stderr=files[1][0])
        for descriptor, _ in files:
            os.close(descriptor)
        self.pid = self.process.pid

    def out(self):
        return self.out_file.read_text()

    def err(self):
        return self.err_file.read_text()

    def text(self):
        return f"--- standard output\n{self.out()}--- standard error\n{self.err()}---"

    def ended(self):
        return self.process.poll() is not None

    def wait(self, seconds=120):
        """The exit code; minus the signal's number where one killed it."""
        return self.process.wait(seconds)

    def send(self, number):
        self.process.send_signal(number)


def nightly(test):
    """A test, or a whole class, that is left out of every other run."""
    return test if NIGHTLY else None


def peers_python():
    """A Python with the packages of tests/tools/peers_requirements.txt; None where they are not installed."""
    if os.environ.get("DDPRUN_PEERS") == "1":
        peers = pathlib.Path(__file__).resolve().parents[1] / "tools/peers"
        return subprocess.run([peers], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return os.environ.get("DDPRUN_PEERS_PYTHON")


def peers_packages():
    """The folder of the packages of the peers' Python; None where they are not installed."""
    if python := peers_python():
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        return subprocess.run([python, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return None


def use_peers():
    """Makes the packages of the peers' Python known here, where there are some: torch lies in this one."""
    if folder := peers_packages():
        sys.path.append(folder)


class Gate:
    """Holds one rank of a run when it first gets to a point with so many steps done (runner/worker/fault_injection.h), until it is opened, or the
    run is asked to stop. A run that must be under way is held, for no number of steps is long on every machine."""

    def __init__(self, test, step, point="computing", rank=0, attempt=0):
        self.test, self.what = test, f"rank {rank} {point} at step {step}"
        self.file = pathlib.Path(tempfile.mkdtemp(dir=test.folder, prefix=".gate-")) / "held"
        self.env = {"DDPRUN_FAULT": f"wait:{point}:{step}:{rank}:{attempt}", "DDPRUN_GATE": str(self.file)}

    def wait(self, running=None):
        self.test.wait_until(self.file.exists, self.what, running)

    def open(self):
        """For who waits, and who comes later: there is no place for the file any more."""
        shutil.rmtree(self.file.parent)


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-e2e-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.mark = uuid.uuid4().hex
        self.addCleanup(self.end_processes)
        for name in ("home", "tmp"):
            (self.folder / name).mkdir()

    def environment(self, changes=None):
        kept = ("PATH", "DDPRUN_START", "LD_LIBRARY_PATH", "OMP_WAIT_POLICY", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")
        values = {name: os.environ[name] for name in kept if name in os.environ}
        values |= {"DDPRUN_PROGRAM": str(DDPRUN),
                   "HOME": f"{self.folder}/home", "TMPDIR": f"{self.folder}/tmp", "LANG": "C.UTF-8", "DDPRUN_TEST": self.mark,
                   "DDPRUN_ON_DEMAND": "no",  # all is built; a build beside the tests is not to be waited for
                   "DDPRUN_POISON": "1"}  # weights that are read before they have come from another rank are NaN
        return values | (changes or {})

    def start(self, *arguments, **options):
        return self.start_program(DDPRUN, *arguments, **options)

    def start_program(self, *command, folder=None, env=None, stdout=None):
        """Another one than ddprun, as what starts it."""
        running = Running(command, folder or self.folder, self.environment(env), stdout)
        self.addCleanup(lambda: running.ended() or (running.process.kill(), running.wait()))
        return running

    def start_held(self, step, *arguments, **where):
        """A run that waits at this step, with its gate."""
        gate = Gate(self, step, **where)
        running = self.start(*arguments, env=gate.env)
        running.gate = gate
        gate.wait(running)
        return running

    def kill(self, running):
        """kill -9, of a run's launcher and all of its workers."""
        for pid in [running.pid, *self.workers().values()]:
            os.kill(pid, signal.SIGKILL)
        running.wait()
        self.assert_nothing_left()

    def start_nodes(self, nodes, workers, *words, env=None):
        """The launchers of a run on so many nodes, with so many workers each: one command where there is one node. `env` may be a list,
        with one for each."""
        if nodes == 1:
            return [self.start(*words, f"launch.workers={workers}", env=env)]
        envs = env if isinstance(env, list) else [env] * nodes
        endpoint = f"127.0.0.1:{free_port()}"
        return [self.start("run", f"--nnodes={nodes}", f"--nproc-per-node={workers}", f"--node-rank={node}",
                           f"--rdzv-endpoint={endpoint}", *words, env=envs[node]) for node in range(nodes)]

    def ddprun(self, *arguments, code=0, folder=None, env=None, seconds=120):
        """Runs to the end, which must be with this exit code."""
        running = self.start(*arguments, folder=folder, env=env)
        self.assertEqual(running.wait(seconds), code, f"ddprun {' '.join(map(str, arguments))}\n{running.text()}")
        return running

    def train(self, run, *words, **options):
        """A run to its end, in the folder of this name. Returns that."""
        self.ddprun(*words, f"run.dir={run}", **options)
        return self.folder / run

    def undisturbed(self, *words, env=None):
        """The folder of a run to the end with these words, started once for all tests of this file."""
        run = shared_folder() / hashlib.sha256(repr((words, env)).encode()).hexdigest()[:8]
        return run if run.exists() else self.train(run, *words, env=env)

    def kill_and_resume(self, run, steps, *words, resumed=(), rank=0):
        """A run that kill -9 meets in each of these steps, and that is resumed from its newest checkpoint each time: there is one before the
        first of them. Returns its folder."""
        start = (*words, f"run.dir={run}")
        for attempt, step in enumerate(steps):
            running = self.start_held(step, *start, rank=rank, attempt=attempt)
            self.wait_until(lambda: checkpoint_steps(self.folder / run), "a checkpoint", running)
            self.kill(running)
            start = ("resume", run, *resumed)
        newest = checkpoint_steps(self.folder / run)[-1]
        self.assertIn(f"resumed at step {newest}\n", self.ddprun(*start).out())
        return self.folder / run

    def assert_same_files(self, run, other, files=("model", "optimizer", "ema")):
        """Of their last checkpoints, those that are there, in each bit."""
        ends = [{path.name: path.read_bytes() for name in files for path in (one / "checkpoints/last").glob(f"{name}.safetensors")}
                for one in (run, other)]
        self.assertEqual(ends[0].keys(), ends[1].keys())
        self.assertEqual([name for name in ends[0] if ends[0][name] != ends[1][name]], [], f"other bits in {run} than in {other}")

    def assert_same_end(self, run, other, files=("model", "optimizer", "ema")):
        """Of their files, and in all rows."""
        self.assert_same_files(run, other, files)
        self.assertEqual(differences(run, other), {})

    def assert_trained_alike(self, run, other, delta):
        """All losses within so much, in parts of those above 1."""
        mine, others = results(run), results(other)
        self.assertEqual(mine.keys(), others.keys())
        for key, row in others.items():
            self.assertAlmostEqual(mine[key]["loss"], row["loss"], delta=delta * max(1, row["loss"]), msg=f"{key} of {run}")

    def assert_worlds_alike(self, words, worlds, delta):
        """One worker and so many train the same within rounding. Returns the folder of one worker's run."""
        alone = self.train("alone", *words, "launch.workers=1")
        for workers in worlds:
            with self.subTest(workers=workers):
                self.assert_trained_alike(self.train(f"run{workers}", *words, f"launch.workers={workers}"), alone, delta)
        return alone

    def assert_refused(self, *arguments, env=None):
        """A mistake of the user: exit code 2, a message, no trace of our own code, no folder of a run. Returns the message."""
        running = self.ddprun(*arguments, code=2, env=env)
        self.assertEqual(running.out(), "")
        for word in ("internal", "terminate called", "Exception raised from", "frame #"):
            self.assertNotIn(word, running.err())
        self.assertFalse((self.folder / "outputs").exists(), "a run that could not start left a folder behind")
        return running.err()

    # Processes

    def processes(self):
        """The live ones that carry this test's mark: {pid: its environment}."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
            except OSError:  # ended meanwhile, a zombie, or somebody else's
                continue
            if f"DDPRUN_TEST={self.mark}".encode() in words:
                found[int(entry.name)] = dict(word.decode(errors="replace").partition("=")[::2] for word in words)
        return found

    def workers(self):
        """{rank: pid}."""
        return {int(env["RANK"]): pid for pid, env in self.processes().items() if "DDPRUN_RUN_DIR" in env}

    def stop_workers(self, running):
        """Sends them SIGSTOP, and waits until it holds: of two signals a process takes the one with the lower number first. Returns
        their ids."""
        workers = list(self.workers().values())
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        stopped = re.compile(r"^State:\tT", re.MULTILINE)
        self.wait_until(lambda: all(stopped.search(pathlib.Path(f"/proc/{pid}/status").read_text()) for pid in workers),
                        "the workers to stop", running)
        return workers

    def end_processes(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def wait_until(self, condition, what, running=None, seconds=60):
        deadline = time.monotonic() + seconds
        while True:
            looked_at = time.monotonic()
            over = running is not None and running.ended()  # asked first: what it did last must count
            if result := condition():
                return result
            if over or looked_at > deadline:
                text = running.text() if running else ""
                self.fail(f"{'the command ended' if over else 'time ran out'} while waiting for {what}\n{text}")
            time.sleep(max(0.002, 4 * (time.monotonic() - looked_at)))  # looking costs a fifth of a core at most

    def assert_nothing_left(self):
        self.wait_until(lambda: not self.processes(), "the end of all processes", seconds=15)

    def wait_for_step(self, running, run, step):
        self.wait_until(lambda: any(row["step"] >= step for row in all_rows(run)), f"step {step}", running)


class Ports:
    """Those below the ones that the kernel gives to connections. Each is locked, a byte of a file, as long as this process lives, so
    that no other test takes it before the command under test listens there."""

    def __init__(self):
        first_of_kernel = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        self.left = iter(random.sample(range(10_000, max(first_of_kernel, 12_000)), 2000))
        name = pathlib.Path(tempfile.gettempdir()) / f"ddprun-test-ports-{os.getuid()}"
        self.locks = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def is_free(self, port):
        try:
            fcntl.lockf(self.locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            with socket.socket() as probe:
                probe.bind(("", port))
        except OSError:
            return False
        return True

    def take(self):
        return next(port for port in self.left if self.is_free(port))


@functools.cache
def ports():
    return Ports()


def free_port():
    return ports().take()


def all_rows(run, measured=False):
    """Of metrics.jsonl, as they were written; the last line may be half there. The split "system" only with `measured`: no two runs
    have the same."""
    try:
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return [row for row in rows if measured or row["split"] != "system"]


def results(run):
    """{(split, step): what was measured}: the last row of each counts."""
    return {(row["split"], row["step"]): {name: value for name, value in row.items() if name not in VOLATILE}
            for row in all_rows(run)}


def differences(run, other):
    """Of their results: {(split, step): (of the one, of the other)}."""
    mine, others = results(run), results(other)
    return {key: (mine.get(key), others.get(key)) for key in mine.keys() | others.keys() if mine.get(key) != others.get(key)}


def losses_of(run, split="train"):
    return [row["loss"] for row in all_rows(run) if row["split"] == split]


def events(run):
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def csv_rows(file):
    with open(file, newline="") as lines:
        return list(csv.DictReader(lines))


def flip_a_bit(file, place=-5):
    """Of the byte at this place."""
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def summary(run):
    return json.loads((run / "summary.json").read_text())


def checkpoint_steps(run):
    return sorted(int(path.name[5:]) for path in (run / "checkpoints").glob("step_*") if path.name[5:].isdigit())


def is_whole(checkpoint):
    """Whether all files are as the manifest says."""
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    return all(hashlib.sha256((checkpoint / name).read_bytes()).hexdigest() == stated["sha256"]
               for name, stated in manifest["files"].items())


def main(refusal=None):
    """Runs a file's tests. Where none of them can run, here or as one finds out, all of it is skipped."""
    if refusal:
        print(f"skipped: {refusal}")
        sys.exit(77)
    result = unittest.main(exit=False).result
    skipped = result.skipped and result.testsRun == 0
    sys.exit(1 if not result.wasSuccessful() else 77 if skipped else 0)

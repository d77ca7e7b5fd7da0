"""Table: what becomes of a run when something fails, beside torchrun with the plain script."""

import dataclasses
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import time
import uuid

from ddprun.rows import read_lines
from suite import mnist_data, peers, process, report, sides

TITLE = "When something fails, beside torchrun"
LIMIT = 30  # seconds to wait for an end
HANG_SECONDS = 5
CHECKPOINT_STEPS = 50
STRIKE_AT = 110  # steps done when the fault strikes, at least

FAULTS = {
    "a worker is killed (kill -9)": ("worker", signal.SIGKILL),
    "a worker crashes (SIGSEGV)": ("worker", signal.SIGSEGV),
    "a worker stops (SIGSTOP)": ("worker", signal.SIGSTOP),
    "the launcher is killed (kill -9)": ("launcher", signal.SIGKILL),
    "the launcher is told to end (SIGTERM)": ("launcher", signal.SIGTERM),
}


@dataclasses.dataclass
class Outcome:
    seconds: float | None  # from the fault to the end of the command; None: none within the limit
    orphans: int  # processes left two seconds later
    told: str  # what the output says of the cause
    steps_lost: int  # of those done when it struck


class OursUnderFault:
    name = "ddprun"

    def __init__(self, program):
        self.program = str(program)

    def command(self, folder):
        job = sides.Job(steps=100_000)
        words = sides.Ddprun(self.program).command(job, pathlib.Path(folder) / "run")
        return [*words, "trainer.log_every=10", f"checkpoint.every={CHECKPOINT_STEPS}st", f"launch.hang_seconds={HANG_SECONDS}"]

    def environment(self):
        return {}

    def steps(self, folder, _):
        rows, _ = read_lines(pathlib.Path(folder) / "run/metrics.jsonl")
        return max((row["step"] for row in rows), default=0)

    def kept_steps(self, folder):
        saved = (pathlib.Path(folder) / "run/checkpoints").glob("step_????????")
        return max((int(path.name[5:]) for path in saved), default=0)


class TorchrunUnderFault:
    name = "torchrun"

    def __init__(self, data):
        self.data = data

    def command(self, _):
        words = ["--data", str(self.data), "--epochs", "100", "--log-every", "10", "--device", "cpu"]
        return peers.torchrun(2, peers.SCRIPTS / "plain.py") + words

    def environment(self):
        return {"OMP_NUM_THREADS": "1"}

    def steps(self, _, output):
        return max(map(int, re.findall(r"step (\d+) loss", output)), default=0)

    def kept_steps(self, _):
        return 0  # the guides' script saves nothing


def marked(mark):
    """{pid: environment} of the live processes of the run."""
    found = {}
    for entry in os.listdir("/proc"):
        try:
            words = pathlib.Path("/proc", entry, "environ").read_bytes().split(b"\0") if entry.isdigit() else []
        except OSError:
            continue
        if f"{process.MARK}={mark}".encode() in words:
            found[int(entry)] = dict(word.decode(errors="replace").partition("=")[::2] for word in words)
    return found


def is_worker(environment):
    return environment.get("RANK") == "1"


def cause_in(output):
    """The line of the output that names rank 1 as the cause."""
    lines = [line.strip() for line in output.splitlines()]
    named = [line for line in lines if re.search(r"rank 1 (failed|has hung|hangs|on)|local_rank: 1|rank\s+: 1", line)]
    return named[0][:90] if named else "nothing"


def strike(side, target, number, folder):
    mark = uuid.uuid4().hex
    output = pathlib.Path(folder) / "output.txt"
    environment = {**os.environ, **side.environment(), process.MARK: mark}
    with open(output, "wb") as file:
        running = subprocess.Popen(side.command(folder), cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT)
    try:
        while (done := side.steps(folder, output.read_text(errors="replace"))) < STRIKE_AT:
            if running.poll() is not None:
                raise process.Failed(f"{side.name} ended early:\n{output.read_text(errors='replace')[-2000:]}")
            time.sleep(0.01)
        victim = running.pid
        if target == "worker":
            victim = max(pid for pid, variables in marked(mark).items() if is_worker(variables))
        struck_at = time.monotonic()
        os.kill(victim, number)
        seconds = None
        try:
            running.wait(LIMIT)
            seconds = time.monotonic() - struck_at
        except subprocess.TimeoutExpired:
            pass
        time.sleep(2)
        orphans = len(marked(mark)) if seconds is not None else 0
        told = cause_in(output.read_text(errors="replace")) if target == "worker" else ""
        return Outcome(seconds, orphans, told, max(0, done - side.kept_steps(folder)))
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
        running.wait()


def measure(options):
    rows, figures = [], {}
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as top:
        both = [OursUnderFault(options.program), TorchrunUnderFault(mnist_data.lay_out(top))]
        for name, (target, number) in FAULTS.items():
            outcomes = {side.name: [] for side in both}
            for _ in range(options.pairs):
                for side in both:
                    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
                        outcomes[side.name].append(strike(side, target, number, folder))
            figures[name] = {side: [dataclasses.asdict(outcome) for outcome in all_] for side, all_ in outcomes.items()}
            rows += [row(name, side, all_) for side, all_ in outcomes.items()]
    text = (
        f"MNIST, convnet_bn, two workers on the CPU, struck after {STRIKE_AT} steps or a few more; a checkpoint every "
        f"{CHECKPOINT_STEPS} steps, `launch.hang_seconds={HANG_SECONDS}`; the script of the guides under torchrun, which has neither. "
        f"Strikes of each: {options.pairs}. Median (least .. most) seconds to the end of the command, {LIMIT} s waited at most; the most "
        "processes left two seconds after it; what the output says of the cause; the most steps of work lost.\n\n"
    )
    table = report.markdown(["fault", "", "seconds", "left", "reported", "steps lost"], rows)
    return text + table, figures


def row(name, side, outcomes):
    ended = [outcome.seconds for outcome in outcomes if outcome.seconds is not None]
    seconds = f"{statistics.median(ended):.1f} ({min(ended):.1f} .. {max(ended):.1f})" if ended else "none"
    if len(ended) < len(outcomes):
        seconds += f"; no end in {len(outcomes) - len(ended)} of {len(outcomes)}"
    worst = max(outcomes, key=lambda outcome: outcome.steps_lost)
    return [name, side, seconds, str(max(outcome.orphans for outcome in outcomes)), outcomes[0].told, str(worst.steps_lost)]

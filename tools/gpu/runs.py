"""Runs of ddprun, and what they leave behind."""

import json
import os
import pathlib
import subprocess
import time


class Run:
    """One run folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def summary(self):
        return json.loads((self.folder / "summary.json").read_text())

    def rows(self, split="train"):
        """Rows of metrics.jsonl; a last line that is still being written is left out."""
        try:
            lines = (self.folder / "metrics.jsonl").read_text().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        rows = [json.loads(line) for line in lines if line.endswith("\n")]
        return [row for row in rows if row["split"] == split]

    def losses(self):
        """By step. A step that was repeated after a resume counts once, with its last value."""
        return {row["step"]: row["loss"] for row in self.rows()}

    def weights(self):
        """The bytes of the last checkpoint's weights and buffers."""
        checkpoints = sorted((self.folder / "checkpoints").glob("step_*"))
        return (checkpoints[-1] / "model.safetensors").read_bytes()


class Ddprun:
    """The program, with the settings that all checks share."""

    def __init__(self, program, folder, device, deadline=float("inf")):
        self.program = str(program)
        self.folder = pathlib.Path(folder)
        self.device = device
        self.deadline = deadline  # by the monotonic clock: no run lasts longer

    def command(self, run, experiment, overrides):
        settings = ["launch.workers=1", f"launch.device={self.device}", f"run.dir={run.folder}"]
        # Later ones win, so a check may set another device or more workers.
        return [self.program, f"experiments/{experiment}.yaml", *settings, *overrides]

    def start(self, name, experiment, overrides, environment=None):
        run = Run(self.folder / name)
        with open(self.folder / f"{name}.txt", "wb") as output:
            process = subprocess.Popen(
                self.command(run, experiment, overrides),
                cwd=self.folder,
                env={**os.environ, **(environment or {})},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return run, process

    def train(self, name, experiment, overrides, environment=None, timeout=200):
        run, process = self.start(name, experiment, overrides, environment)
        self.finish(process, name, timeout)
        return run

    def resume(self, run, timeout=200):
        name = f"{run.folder.name}_resumed"
        with open(self.folder / f"{name}.txt", "wb") as output:
            command = [self.program, "resume", str(run.folder)]
            process = subprocess.Popen(command, cwd=self.folder, stdout=output, stderr=subprocess.STDOUT)
        self.finish(process, name, timeout)

    def finish(self, process, name, timeout):
        status = self.status(process, timeout)
        if status != 0:
            raise AssertionError(f"ddprun ended with {status}: {self.output(name)[-600:]}")

    def status(self, process, timeout):
        """The exit code. What does not end is killed, and an AssertionError."""
        timeout = max(1, min(timeout, self.deadline - time.monotonic()))
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"ddprun did not end within {timeout:.0f} s") from None

    def output(self, name):
        return (self.folder / f"{name}.txt").read_text(errors="replace")


def workers_of(run):
    """The process ids of its workers."""
    mark = f"DDPRUN_RUN_DIR={run.folder}".encode()
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and mark in pathlib.Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                found.append(int(entry))
        except OSError:
            pass
    return found


def wait_for_step(run, step, process, timeout=100):
    deadline = time.monotonic() + timeout
    while max(run.losses(), default=0) < step:
        if process.poll() is not None:
            raise AssertionError(f"the run ended with {process.returncode} before step {step}")
        if time.monotonic() > deadline:
            raise AssertionError(f"step {step} did not come within {timeout} s")
        time.sleep(0.005)

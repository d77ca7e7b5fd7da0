"""Runs of ddprun, and what they leave behind."""

import json
import os
import pathlib
import socket
import subprocess
import time


class Hung(AssertionError):
    """A run did not end within its time."""


class Run:
    """One run folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def summary(self):
        return json.loads((self.folder / "summary.json").read_text())

    def rows(self, split="train"):
        """Returns the rows of metrics.jsonl so far, of all attempts."""
        file = self.folder / "metrics.jsonl"
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("\n")]  # it may be written meanwhile
        return [row for row in rows if row["split"] == split]

    def losses(self):
        """Returns values by step. A step that was repeated after a resume counts once, with its last value."""
        return {row["step"]: row["loss"] for row in self.rows()}

    def weights(self):
        """The bytes of the last checkpoint's weights and buffers."""
        checkpoints = sorted((self.folder / "checkpoints").glob("step_*"))
        assert checkpoints, f"{self.folder.name} left no checkpoint"
        return (checkpoints[-1] / "model.safetensors").read_bytes()


class Ddprun:
    """The program, with the settings that all runs share."""

    def __init__(self, program, folder, device, environment=None, deadline=float("inf")):
        self.program = str(program)
        self.folder = pathlib.Path(folder)
        self.device = device
        self.environment = environment or {}  # of all runs
        self.deadline = deadline  # by the monotonic clock: no run lasts longer

    def command(self, run, experiment, overrides):
        settings = ["launch.workers=1", f"launch.device={self.device}", f"run.dir={run.folder}"]
        if self.device == "cpu":
            settings.append("launch.threads=1")
        # Later ones win, so who starts it may set another device or more workers.
        return [self.program, f"experiments/{experiment}.yaml", *settings, *overrides]

    def spawn(self, name, command, environment=None):
        with open(self.folder / f"{name}.txt", "wb") as output:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **self.environment, **(environment or {})},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def start(self, name, experiment, overrides, environment=None):
        run = Run(self.folder / name)
        return run, self.spawn(name, self.command(run, experiment, overrides), environment)

    def train(self, name, experiment, overrides, environment=None, timeout=200):
        run, process = self.start(name, experiment, overrides, environment)
        self.finish(process, name, timeout)
        return run

    def resume(self, run, timeout=200):
        name = f"{run.folder.name}_resumed"
        self.finish(self.spawn(name, [self.program, "resume", str(run.folder)]), name, timeout)

    def finish(self, process, name, timeout=200):
        status = self.status(process, name, timeout)
        if status != 0:
            raise AssertionError(f"{name}: ddprun ended with {status}: {self.output(name)[-600:]}")

    def status(self, process, name, timeout=200):
        """Returns the exit code. Kills what does not end, and raises Hung."""
        timeout = max(1, min(timeout, self.deadline - time.monotonic()))
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Hung(f"{name}: ddprun did not end within {timeout:.0f} s: {self.output(name)[-300:]}") from None
        except BaseException:  # we are asked to end
            process.terminate()
            raise

    def output(self, name):
        return (self.folder / f"{name}.txt").read_text(errors="replace")


def wait_for(what, met, processes, deadline):
    """Waits until met() is true; raises AssertionError if a process ends before, or the deadline is over."""
    while not met():
        for process in processes:
            assert process.poll() is None, f"ddprun ended with {process.returncode} before {what}"
        if time.monotonic() > deadline:
            raise Hung(f"{what} did not come in time")
        time.sleep(0.01)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]

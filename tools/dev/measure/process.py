"""Runs a program to its end, and finds what others have left."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time


class Failed(Exception):
    """The program did not end well; the text holds the end of its output."""


def run(command, environment, folder, timeout):
    """Runs it in `folder`, with `environment` added to ours; what it prints goes to output.txt there. Returns when it was
    started, in seconds since 1970."""
    output = pathlib.Path(folder) / "output.txt"
    words = list(map(str, command))
    started_at = time.time()
    with open(output, "wb") as file:
        running = subprocess.Popen(words, cwd=folder, env={**os.environ, **environment}, stdout=file, stderr=subprocess.STDOUT)
        try:
            status = running.wait(timeout)
        except subprocess.TimeoutExpired:
            status = f"no end within {timeout:.0f} s"
        finally:
            stop(running)
    if status != 0:
        raise Failed(f"{words[0]} ended with {status}:\n{output.read_text(errors='replace')[-3000:]}")
    return started_at


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
    """Returns the ids of all processes that have it in their environment."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has just ended, or is somebody else's
            if f"{variable}={value}".encode() in pathlib.Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                found.append(int(entry))
    return found


def kill_processes_with(variable, value):
    """Kills until none is left: what they start meanwhile has the variable too. One that is stuck in the kernel is left
    to it.
    """
    for _ in range(50):
        found = processes_with(variable, value)
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)

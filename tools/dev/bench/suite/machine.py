"""What the figures were measured on."""

import datetime
import os
import pathlib
import platform
import subprocess


def load():
    return pathlib.Path("/proc/loadavg").read_text().split()[:3]


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def free_bytes():
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def gpus():
    try:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def describe():
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "gpus": gpus(),
        "system": platform.platform(),
        "load_at_start": load(),
    }


def in_words(facts):
    gpu_text = f", {len(facts['gpus'])} x {facts['gpus'][0]}" if facts["gpus"] else ""
    load_text = " ".join(facts["load_at_start"])
    return (
        f"{facts['date']}, {facts['cores']} cores of {facts['cpu']}{gpu_text}; load average at the start: {load_text}"
    )


def warn_of_load(facts):
    """Another program on the same cores spoils absolute figures; ratios of alternating runs suffer less."""
    busy = float(facts["load_at_start"][0])
    return f"the machine was not quiet: load {busy}" if busy > 0.5 else ""

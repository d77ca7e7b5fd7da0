"""Writes what was measured, and on what: JSON with every single value, and markdown to paste."""

import datetime
import json
import math
import os
import pathlib
import platform
import subprocess

FORMAT = 3  # of the JSON
GPU_FACTS = {"name": "name", "driver": "driver_version", "memory": "memory.total", "power_limit": "power.limit"}


def gpus():
    """Describes each GPU; empty without a driver."""
    query = ["nvidia-smi", f"--query-gpu={','.join(GPU_FACTS.values())}", "--format=csv,noheader"]
    try:
        listed = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [dict(zip(GPU_FACTS, map(str.strip, line.split(",")), strict=False)) for line in listed.splitlines()]


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def free_bytes():
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def facts(command, rehearsal=False):
    machine = {"cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "gpus": gpus(), "system": platform.platform(),
               "load_at_start": pathlib.Path("/proc/loadavg").read_text().split()[:3]}  # fmt: skip
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return {"format": FORMAT, "date": date, "command": command, "rehearsal": rehearsal, "machine": machine}


def in_words(about):
    machine = about["machine"]
    cards = ", ".join(f"{gpu['name']} (driver {gpu['driver']})" for gpu in machine["gpus"]) or "no GPU"
    rehearsal = " A REHEARSAL with a few steps of small networks: no figure means anything." if about["rehearsal"] else ""
    # Another program on the same cores spoils absolute figures; ratios of alternating runs suffer less.
    busy = ", so NOT QUIET" if float(machine["load_at_start"][0]) > 0.5 else ""
    return (
        f"{about['date']}, {cards}, {machine['cores']} cores of {machine['cpu']}, load {' '.join(machine['load_at_start'])} "
        f"at the start{busy}: `{about['command']}`.{rehearsal}"
    )


def as_json(about, tables, **more):
    """`tables` are {name: measure.table.Made}."""
    report = {**about, **more, "tables": {name: table.as_json() for name, table in tables.items()}}
    return json.dumps(without_nan(report), indent=1, default=str) + "\n"


def without_nan(value):
    """Replaces NaN and infinity, which JSON lacks, by null."""
    if isinstance(value, dict):
        return {str(key): without_nan(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

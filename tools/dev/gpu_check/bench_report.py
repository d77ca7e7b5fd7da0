"""Writes the results of the benchmarks: JSON with every single value, and markdown to paste into docs/benchmarks.md."""

import datetime
import json
import math
import shlex
import subprocess
import sys

from suite import machine

FORMAT = 1  # of the JSON
GPU_FACTS = {"name": "name", "driver": "driver_version", "memory": "memory.total", "power_limit": "power.limit"}


def gpu_facts():
    """Describes each GPU; empty without a driver."""
    query = ["nvidia-smi", f"--query-gpu={','.join(GPU_FACTS.values())}", "--format=csv,noheader"]
    try:
        listed = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [dict(zip(GPU_FACTS, map(str.strip, line.split(",")), strict=False)) for line in listed.splitlines()]


def command():
    return shlex.join(["tools/gpu_check", *sys.argv[1:]])


def facts(options):
    return {
        "format": FORMAT,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "command": command(),
        "rehearsal": options.rehearse,
        "minutes": options.minutes,
        "machine": {**machine.describe(), "gpus": gpu_facts()},
    }


def as_json(about, rows, bench, tables):
    """`rows` are those of the checks and tables: name, outcome, detail, seconds."""
    report = {
        **about,
        "versions": bench.versions if bench else {},
        "peaks": bench.peaks if bench else {},
        "results": [dict(zip(("name", "outcome", "detail", "seconds"), row, strict=True)) for row in rows],
        "tables": {name: table_as_json(table) for name, table in tables.items()},
    }
    return json.dumps(without_nan(report), indent=1, default=str) + "\n"


def table_as_json(table):
    rounds = table.rounds
    return {
        "title": table.title,
        "rounds": rounds.done if rounds else 0,
        "rounds_wanted": rounds.wanted if rounds else 0,
        "calculated": rounds is None,
        "targets": [target.as_json() for target in table.targets],
        "missing": table.missing(),
        "figures": table.figures,
    }


def without_nan(value):
    """Replaces NaN, which JSON lacks, by null."""
    if isinstance(value, dict):
        return {str(key): without_nan(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def markdown(about, checks_table, bench, tables):
    parts = [in_words(about, bench), checks_table, *(table.markdown() for table in tables.values())]
    return "\n\n".join(parts) + "\n"


def in_words(about, bench):
    host, versions = about["machine"], bench.versions if bench else {}
    gpus = ", ".join(f"{gpu['name']} (driver {gpu['driver']})" for gpu in host["gpus"]) or "no GPU"
    software = ", ".join(f"{name} {versions[name]}" for name in ("torch", "cuda", "cudnn", "torchvision") if versions.get(name))
    rehearsal = " A REHEARSAL with a few steps of small networks: no figure means anything." if about["rehearsal"] else ""
    load = " ".join(host["load_at_start"])
    return (
        f"{about['date']}, {gpus}, {host['cores']} cores of {host['cpu']}, load {load} at the start; {software or 'no torch'}: "
        f"`{about['command']}`.{rehearsal}"
    )

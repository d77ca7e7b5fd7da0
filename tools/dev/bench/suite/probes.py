"""The programs that measure ddprun from the inside, which nothing but these tables builds."""

import json
import os
import pathlib
import subprocess
import sys

from suite import process

ROOT = pathlib.Path(__file__).resolve().parents[4]
BUILD = ROOT / "build/release"


def build(name):
    subprocess.run([ROOT / ".venv/bin/cmake", "--build", BUILD, "--target", name], check=True, stdout=sys.stderr)


def run(name, *words, timeout):
    """The JSON that it prints."""
    return last_line([str(BUILD / "tools" / name), *map(str, words)], timeout, {"GLOO_LOG_LEVEL": "ERROR"})


def last_line(command, timeout, environment):
    """The JSON in the last line that the command prints."""
    ran = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **environment})
    if ran.returncode != 0:
        raise process.Failed(f"{' '.join(command)}: {ran.stderr[-3000:]}")
    line = ran.stdout.splitlines()[-1]
    print(f"{pathlib.Path(command[0]).name} {' '.join(command[1:])}: {line}", file=sys.stderr, flush=True)
    return json.loads(line)

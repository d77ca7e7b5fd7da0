#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tools/sweep sees of ddprun, without any training: its command line, folders, lock, signals and exit codes.

The experiment has the keys x, y and mode. A run measures val/score = x + y, three times. $MADE_LOG gets a line for each
start; while $MADE_GATE names a file that is not there, a run waits for it after its first value. mode=fail fails,
mode=slow continues after its first value until it is stopped, mode=dumb measures something else, mode=nan nothing finite.
"""

import fcntl
import json
import os
import pathlib
import signal
import socket
import sys
import time

KEYS = ("x", "y", "mode", "launch.threads", "run.dir")
stopped = False


def refuse(text):
    print(f"ddprun: error: {text}", file=sys.stderr)
    sys.exit(2)


def check(words):
    for word in words:
        key, _, value = word.lstrip("+~").partition("=")
        if key not in KEYS:
            refuse(f"command line: {word}: {key}: unknown key; did you mean x? known: mode, x, y")
        if key in "xy" and not value.replace(".", "").replace("-", "").isdigit():
            refuse(f"command line: {word}: {key}: expected float, found {value}")


def begin(run, values):
    run.mkdir()
    (run / "logs").mkdir()
    (run / "config.yaml").write_text("name: made\n" + "".join(f'{key}: "{value}"\n' for key, value in values.items()))


def read(run):
    lines = (run / "config.yaml").read_text().splitlines()
    return {key: value.strip(' "') for key, _, value in (line.partition(":") for line in lines)}


def note(text):
    if log := os.environ.get("MADE_LOG"):
        with open(log, "a") as file:
            file.write(f"{text} {os.getpid()} {os.environ.get('CUDA_VISIBLE_DEVICES', '-')}\n")


def measure(run, step, value, name="score"):
    row = {"time": time.time(), "attempt": 0, "split": "val", "epoch": step, "step": step, name: value}
    if value is None:
        row["nonfinite"] = [name]
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps(row) + "\n")


def end(run, status, code, reason=""):
    attempt = int((run / ".attempts").read_text()) - 1
    summary = {"status": status, "attempt": attempt, "stop_reason": reason, "train_seconds": 2.5}
    (run / "summary.json").write_text(json.dumps(summary))
    sys.exit(code)


def wait_for(condition, run):
    while not condition():
        if stopped:
            end(run, "preempted", 75)
        time.sleep(0.005)


def train(run):
    lock = open(run / ".lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    lock.write(f"process {os.getpid()} on {socket.gethostname()}")
    lock.flush()
    attempts = run / ".attempts"
    attempts.write_text(str(int(attempts.read_text()) + 1 if attempts.exists() else 1))
    values = read(run)
    mode = values.get("mode", "")
    if mode == "long":
        end(run, "failed", 1, "rank 0 failed first: " + "a long story " * 30 + "with an end")
    if mode == "fail" or (mode == "until" and not os.path.exists("until")):
        end(run, "failed", 1, "rank 0 failed first: out of luck")
    score = None if mode == "nan" else float(values.get("x", 0)) + float(values.get("y", 0))
    name = "sorce" if mode == "dumb" else "score"
    measure(run, 1, score, name)
    note(f"begin {run.name}")
    gate = os.environ.get("MADE_GATE")
    wait_for(lambda: mode != "slow" and (not gate or os.path.exists(gate)), run)
    for step in (2, 3):
        measure(run, step, score, name)
    end(run, "completed", 0)


def stop(*_):
    global stopped
    stopped = True


def main(words):
    signal.signal(signal.SIGTERM, stop)
    if words[0] == "--version":
        print("ddprun 0")
    elif words[0] == "check":
        check([word for word in words[2:] if word != "--no-data"])
    elif words[0] == "--cfg":
        print("name: made\nlaunch:\n  workers: 1")
    elif words[:2] == ["report", "--json"]:
        os.execv(os.environ["DDPRUN"], ["ddprun", *words])
    elif words[0] == "report":
        pathlib.Path(words[words.index("--out") + 1]).write_text("made")
    elif words[0] == "resume":
        train(pathlib.Path(words[1]))
    else:
        values = dict(word.lstrip("+").split("=", 1) for word in words[1:])
        run = pathlib.Path(values.pop("run.dir"))
        begin(run, {key: value for key, value in values.items() if key in ("x", "y", "mode")})
        train(run)


main(sys.argv[1:])

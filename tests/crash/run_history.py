# SPDX-License-Identifier: MIT
"""What a run has promised by each point of a record, and whether a disk after a power cut keeps it."""

import csv
import functools
import hashlib
import io
import json
import math
import re

from disk import File
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

STEP = re.compile(r"checkpoints/step_(\d{8})")
LOGS = ("metrics.jsonl", "tables.jsonl", "metrics.csv")  # and TensorBoard's files


class Lost(AssertionError):
    """The disk does not keep a promise."""


class RunHistory:
    """Of the run in the folder `run` of the disk."""

    def __init__(self, run):
        self.prefix = f"{run}/"
        self.step = -1  # of the checkpoint that `last` has led to
        self.rows = {}  # {step: {path: rows that its checkpoint stands for}}
        self.written = {}  # {path of a log: all rows that it ever had}
        self.put = {}  # {path: contents that were renamed into that place}
        self.grown = set()  # of these, what was written to afterwards
        self.completed = {}  # {path: rows} that a summary of a run that is complete stands for
        self.at_end = {}  # {path: content} once it has reported that it has ended well

    def own(self, path):
        return path.removeprefix(self.prefix) if path.startswith(self.prefix) else ""

    def observe(self, operation, disk):
        """`operation` has just been done."""
        path, other = self.own(operation.path), self.own(operation.other)
        if operation.call == "write":
            self.grown.add(path)
            if is_log(path):
                now = disk.find(operation.path).now
                self.written[path] = self.written.get(path, frozenset()) | rows_of(path, now).keys()
        if operation.call != "rename" or not other:
            return
        if saved := STEP.fullmatch(other):
            self.rows[int(saved[1])] = self.rows_before(int(saved[1]), disk)
        elif other == "summary.json":
            self.completed = self.rows_before(math.inf, disk)
        elif other == "checkpoints/last":
            self.step = int(STEP.search("checkpoints/" + disk.find(operation.other).now.decode())[1])
        node = disk.find(operation.other)
        if isinstance(node, File) and not node.link:
            self.put.setdefault(other, set()).add(node.now)

    def rows_before(self, step, disk):
        """The next attempt does not write them again where it continues from here."""
        state = {self.own(path): content for path, content in disk.as_seen().items()}
        return {path: frozenset(row for row, at in rows_of(path, content).items() if at < step)
                for path, content in state.items() if is_log(path)}

    def end(self, disk):
        state = {self.own(path): content for path, content in disk.as_seen().items()}
        self.at_end = {path: state[path] for path in self.put if path in state and path not in self.grown}

    # What a disk must hold

    def check(self, disk):
        """Lost, where `disk`, {path: content}, breaks a promise."""
        state = {self.own(path): content for path, content in disk.items()}
        newest = newest_whole(state)
        if newest < self.step:
            raise Lost(f"the newest whole checkpoint is of step {newest}, but `last` has led to {self.step}")
        if newest >= 0 and "config.yaml" not in state:
            raise Lost("there is a checkpoint, but no config.yaml to continue with")
        self.check_links(state)
        self.check_whole(state)
        self.check_rows(state, self.rows.get(newest, {}), f"the checkpoint of step {newest} is whole")
        if b'"status": "completed"' in state.get("summary.json", b""):
            self.check_rows(state, self.completed, "the summary says completed")
        for path, content in self.at_end.items():
            if state.get(path) != content:
                raise Lost(f"the run has ended, but {path} is not as it was")

    def check_links(self, state):
        for name in ("last", "best"):
            target = state.get(f"checkpoints/{name}")
            if target is not None and not is_whole(state, f"checkpoints/{target}"):
                raise Lost(f"`{name}` leads to {target}, which is not whole")

    def check_whole(self, state):
        for path, contents in self.put.items():
            content = state.get(path)
            if content is not None and path not in self.grown and content not in contents:
                raise Lost(f"{path} is torn: {content[:60]!r}")
        for path, content in state.items():
            if is_log(path) and (strange := rows_of(path, content).keys() - self.written.get(path, frozenset())):
                raise Lost(f"{path} has a row that nobody has written: {next(iter(strange))}")
        for row in pictures(state.get("tables.jsonl", b"")):
            if row not in state:
                raise Lost(f"{row} is missing, though tables.jsonl names it")

    @staticmethod
    def check_rows(state, rows, why):
        for path, expected in rows.items():
            if missing := expected - rows_of(path, state.get(path, b"")).keys():
                raise Lost(f"{why}, but {path} has lost {len(missing)} of {len(expected)} rows: {next(iter(missing))}")


# Checkpoints

def steps(state):
    return sorted({int(found[1]) for path in state if (found := STEP.fullmatch(path))})


def newest_whole(state):
    whole = [step for step in steps(state) if is_whole(state, f"checkpoints/step_{step:08}")]
    return max(whole, default=-1)


def is_whole(state, folder):
    """As `ddprun verify` sees it."""
    stated = manifest_of(state.get(f"{folder}/manifest.json") or b"")
    return stated is not None and all(
        (content := state.get(f"{folder}/{name}")) is not None and digest(content) == sha256 for name, sha256 in stated)


@functools.lru_cache(maxsize=None)
def digest(content):
    return hashlib.sha256(content).hexdigest()


@functools.lru_cache(maxsize=None)
def manifest_of(text):
    """((name, SHA-256)...); None where it is broken."""
    try:
        manifest = json.loads(text)
        own = manifest.pop("manifest_sha256")
    except (ValueError, KeyError, AttributeError):
        return None
    if digest(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()) != own:
        return None
    return tuple((name, stated["sha256"]) for name, stated in manifest["files"].items())


# Rows

def is_log(path):
    return path in LOGS or path.startswith("tensorboard/events")


def rows_of(path, content):
    """{row: its step}, of those that a reader takes for whole."""
    readers = {"jsonl": json_rows, "csv": csv_rows}
    return readers.get(path.rpartition(".")[2], event_rows)(content)


def objects(content):
    for line in content.split(b"\n")[:-1]:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield line, row


@functools.lru_cache(maxsize=4096)
def json_rows(content):
    rows = {line: row.get("row", row).get("step", -1) for line, row in objects(content)}
    return {line: step for line, step in rows.items() if step >= 0}


@functools.lru_cache(maxsize=4096)
def csv_rows(content):
    whole = content[:content.rfind(b"\n") + 1].decode()
    if "\0" in whole:
        whole = whole[:whole.index("\0")].rpartition("\n")[0] + "\n"
    return {tuple(sorted((name, value) for name, value in row.items() if value)): int(row["step"])
            for row in csv.DictReader(io.StringIO(whole)) if row.get("step")}


checksum = functools.lru_cache(maxsize=None)(masked_crc32c)


@functools.lru_cache(maxsize=4096)
def event_rows(content):
    """Records of TensorBoard: length, checksum, event, checksum."""
    rows, at = {}, 0
    while at + 12 <= len(content):
        size = int.from_bytes(content[at:at + 8], "little")
        record = content[at:at + size + 16]
        if size == 0 or len(record) < size + 16 or checksum(record[12:-4]) != int.from_bytes(record[-4:], "little"):
            break
        if step := Event.FromString(record[12:-4]).step:
            rows[record] = step
        at += len(record)
    return rows


@functools.lru_cache(maxsize=4096)
def pictures(tables):
    return frozenset(row["image"] for _, table in objects(tables) for row in table.get("rows", [])
                     if isinstance(row, dict) and "image" in row)

# SPDX-License-Identifier: MIT
"""Reads run-ID.wandb, which the wandb package writes for `wandb sync`: a log in LevelDB's
format with its messages.

A kill loses what wandb had not written yet, so these files, not our own notes, tell
what is there.
"""

from ddprun.files_below import open_below

BLOCK = 32768
HEADER = 7  # of the file, and of each piece of a record: checksum (4 bytes), length (2), kind (1)
WHOLE, FIRST, LAST = 1, 2, 4


def records(file):
    """Returns the bytes of each complete record; a torn end is skipped."""
    with open_below(file.parent, file.name) as stream:
        data = stream.read()
    at, record = HEADER, b""
    while at + HEADER <= len(data):
        left = BLOCK - at % BLOCK
        if left < HEADER:  # filled up with zeros
            at += left
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        piece = data[at + HEADER : at + HEADER + length]
        if kind == 0 or len(piece) < length:
            return
        at += HEADER + length
        record = piece if kind in (WHOLE, FIRST) else record + piece
        if kind in (WHOLE, LAST):
            yield record


def next_step(folder, run_id):
    """Returns the first step that none of the W&B run's files below `folder` has."""
    from wandb.proto import wandb_internal_pb2

    step = 0
    for file in folder.glob(f"*run-*/run-{run_id}.wandb"):
        for record in records(file):
            message = wandb_internal_pb2.Record.FromString(record)
            if message.HasField("history"):
                step = max(step, message.history.step.num + 1)
    return step

# SPDX-License-Identifier: MIT
"""Reads the JSON lines of runs that train meanwhile: the file may be growing, torn, or of several attempts. Of all other runs
ddprun.run() says what is there."""

import json


def read_lines(file, begin=0, end=None):
    """Returns the objects in a file of JSON lines from byte `begin` on, and the end of the last complete line.

    A line that is being written is left for the next call. What a killed run left torn is skipped. A missing file has
    no lines.
    """
    objects = []
    try:
        stream = open(file, "rb")
    except FileNotFoundError:
        return [], begin
    with stream:
        stream.seek(begin)
        for line in stream:
            if not line.endswith(b"\n") or end is not None and begin + len(line) > end:
                break
            begin += len(line)
            objects.append(parse(line))
    return [one for one in objects if one is not None], begin


def parse(line):
    """Returns None if it is not a whole object."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # also for invalid UTF-8
        return None
    return value if isinstance(value, dict) else None


def standing_rows(rows, kinds=("split",)):
    """Those that count: an attempt that was cut off leaves rows beyond its last checkpoint; the next writes them again.

    When an attempt begins at an earlier step, the rows of the attempts before are void beyond that step; of two with
    the same step and the same `kinds`, the later one counts. Rows keep their order.
    """
    standing = {}
    newest = None
    for row in rows:
        attempt, step = row.get("attempt", 0), row.get("step", 0)
        if newest is not None and attempt > newest:
            standing = {key: other for key, other in standing.items() if key[0] <= step}
        newest = attempt if newest is None else max(newest, attempt)
        key = (step, *(row.get(kind) for kind in kinds))
        standing.pop(key, None)  # a later row also takes a later place
        standing[key] = row
    return list(standing.values())

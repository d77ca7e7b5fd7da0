# SPDX-License-Identifier: MIT
import json


def read_lines(file, begin=0, end=None):
    """The objects in a file of JSON lines from byte `begin` on, and the byte behind the last whole line.

    A line that is being written is left for the next call. What a killed run left torn is skipped. No file: no lines.
    """
    try:
        with open(file, "rb") as stream:
            stream.seek(begin)
            data = stream.read(None if end is None else end - begin)
    except FileNotFoundError:
        return [], begin
    whole = data[: data.rfind(b"\n") + 1]
    parsed = (parse(line) for line in whole.split(b"\n"))
    return [line for line in parsed if line is not None], begin + len(whole)


def parse(line):
    """None where it is no whole object."""
    try:
        value = json.loads(line)
    except ValueError:  # of UTF-8 as well
        return None
    return value if isinstance(value, dict) else None

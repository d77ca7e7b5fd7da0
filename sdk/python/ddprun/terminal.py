# SPDX-License-Identifier: MIT
"""Text of others' on a terminal: names of folders, values of files, what a failed run said of itself."""

import re

# But tabs and ends of lines: those of ASCII, those of ISO 8859-1 (one of them begins commands, too), and bytes that are no UTF-8.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text):
    """Without what a terminal would obey in the place of showing it."""
    return CONTROL.sub("?", str(text))


def has_control(text):
    """Whether there is a character in it that is no character of a line; what becomes one line of a script has none."""
    return re.search(r"[\x00-\x1f\x7f]", text) is not None

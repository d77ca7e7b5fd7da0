# SPDX-License-Identifier: MIT
"""Makes foreign text safe for a terminal: names of folders, values of files, messages of a failed run."""

import re

# But tabs and ends of lines: those of ASCII, those of ISO 8859-1 (one of them begins commands, too), and bytes that are no UTF-8.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text):
    """Returns the text without what a terminal would obey instead of showing it."""
    return CONTROL.sub("?", str(text))

# SPDX-License-Identifier: MIT
"""Names of classes and of columns: what a reader takes for one name is not two."""

import re
import unicodedata

from ddprun import UserError


def tidy(name):
    """Returns the name without blanks at its ends, in the composed form of Unicode."""
    return unicodedata.normalize("NFC", name).strip().strip("\ufeff\u200b")


def has_blanks(value):
    """Returns whether it is a name, and no number, that is not tidy."""
    return isinstance(value, str) and tidy(value) != value and number_in(tidy(value)) is None


def require_distinct(names, where):
    """Refuses names that are equal, or differ in blanks, case or the form of Unicode alone."""
    seen = {}
    for name in names:
        alike = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
        if alike in seen:
            other = seen[alike]
            how = "come twice" if other == name else "differ in blanks, case or the form of Unicode alone"
            raise UserError(f"{where}: {other!r} and {name!r} {how}: rename one")
        seen[alike] = name


def number_in(text):
    """Returns the int or float that a text is; None if it is none. 007 is a name."""
    if re.fullmatch(r"[+-]?(0|[1-9][0-9]*)", text):
        return int(text)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text) and not re.fullmatch(r"[+-]?0[0-9]+", text):
        return float(text)
    return {"nan": float("nan"), "inf": float("inf"), "infinity": float("inf"), "-inf": float("-inf")}.get(text.lower())

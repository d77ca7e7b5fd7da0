# SPDX-License-Identifier: MIT
"""Writes overrides of Python's values as words of the command line."""

import json
import math
import os
import re

from ddprun.errors import UserError

NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
WORDS = {"null": None, "[]": [], "{}": {}}
WORDS |= {word: value for name, value in (("true", True), ("false", False)) for word in (name, name.title(), name.upper())}


def override_words(overrides):
    """Returns ["trainer.max_epochs=3"] for {"trainer.max_epochs": 3}."""
    return [f"{name}={override_text(value, name)}" for name, value in (overrides or {}).items()]


def override_text(value, name):
    """Returns the text after `name=`: literal, unless it would be read as something else."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        plain = value and value == value.strip() and value[0] not in "[{\"'" and isinstance(typed_value(value), str)
        return value if plain and "\n" not in value else json.dumps(value, ensure_ascii=False)
    return yaml_text(value, name)


def yaml_text(value, name):
    """Returns the value in one line, in YAML's flow style."""
    if hasattr(value, "item") and not getattr(value, "shape", ()):  # a number from numpy or torch
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return json.dumps(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ".nan" if math.isnan(value) else f"{'-' if value < 0 else ''}.inf"
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, (list, tuple, range)):
        return f"[{', '.join(yaml_text(item, name) for item in value)}]"
    if isinstance(value, dict):
        entries = (f"{json.dumps(str(key), ensure_ascii=False)}: {yaml_text(item, name)}" for key, item in value.items())
        return f"{{{', '.join(entries)}}}"
    raise UserError(f"{name}: a {type(value).__name__} cannot be an override; numbers, text, booleans, None, lists and dictionaries can")


def typed_value(word):
    """Returns the value that ddprun reads an unquoted word as."""
    if word in WORDS:
        value = WORDS[word]
        return type(value)() if isinstance(value, (list, dict)) else value
    if NUMBER.fullmatch(word):
        return int(word) if re.fullmatch(r"[-+]?\d+", word) else float(word)
    return word

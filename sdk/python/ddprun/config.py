# SPDX-License-Identifier: MIT
"""Reads a run's config.yaml in the plain form that ddprun writes: one key or item per line, and where it came from."""

import json
import re

from ddprun.errors import UserError
from ddprun.files_below import text_below

QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
PLAIN = re.compile(r"(?:(?!: |:$| +#| +$).)*")
NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
WORDS = {"null": None, "[]": [], "{}": {}}
WORDS |= {word: value for name, value in (("true", True), ("false", False)) for word in (name, name.title(), name.upper())}


def read_config(file):
    """Returns the experiment as dictionaries, lists, strings, numbers, booleans and None."""
    text = text_below(file.parent, file.name)
    if text is None:
        raise UserError(f"{file}: there is no such file")
    lines = [
        (number, len(line) - len(line.lstrip(" ")), line.strip(" "))
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip(" ") and not line.lstrip(" ").startswith("#")
    ]
    try:
        return ConfigReader(file, lines).read() if lines else {}
    except RecursionError:
        raise UserError(f"{file}: nested too deeply for what ddprun writes") from None


class ConfigReader:
    """Parses lines (number, indent, text); a block is the lines from `next` on with the indent of its first."""

    def __init__(self, file, lines):
        self.file, self.lines, self.next = file, lines, 0

    def read(self):
        value = self.block()
        if self.next < len(self.lines):
            self.refuse()
        return value

    def block(self):
        indent, text = self.lines[self.next][1:]
        is_list = text == "-" or text.startswith(("- ", "-\t"))
        value = [] if is_list else {}
        while self.next < len(self.lines) and self.lines[self.next][1] == indent:
            if is_list:
                value.append(self.item())
            else:
                key, entry = self.entry()
                value[key] = entry
        return value

    def item(self):
        """Reads "- key: value", which begins a map that is indented by the dash."""
        number, indent, text = self.lines[self.next]
        if not text.startswith("-"):
            self.refuse()
        rest = text[1:].lstrip(" ")
        if rest and not rest.startswith("#"):
            if self.scalar(rest)[1].startswith(":"):
                self.lines[self.next] = (number, indent + len(text) - len(rest), rest)
                return self.block()
        return self.value(rest)

    def entry(self):
        key, rest = self.scalar(self.lines[self.next][2])
        if not rest.startswith(":"):
            self.refuse()
        return str(key), self.value(rest[1:].lstrip(" "))

    def value(self, text):
        """Reads the value after a key or a dash: on this line, or in the block that is indented deeper."""
        indent = self.lines[self.next][1]
        if text and not text.startswith("#"):
            value, rest = self.scalar(text, typed=True)
            if rest and not rest.startswith("#"):
                self.refuse()
            self.next += 1
            return value
        self.next += 1
        if self.next == len(self.lines) or self.lines[self.next][1] <= indent:
            return None
        return self.block()

    def scalar(self, text, typed=False):
        """Returns the value that `text` begins with, and what follows it."""
        if found := QUOTED.match(text):
            escaped = re.sub(r"\\x([0-9a-f]{2})", r"\\u00\1", found[1])
            return json.loads(f'"{escaped}"', strict=False), text[found.end() :].lstrip(" ")
        word = PLAIN.match(text)[0]
        if not word or typed and word not in WORDS and word[0] in "[{&*!|>'\"%@`":
            self.refuse()
        return typed_value(word) if typed else word, text[len(word) :].lstrip(" ")

    def refuse(self):
        number, _, text = self.lines[min(self.next, len(self.lines) - 1)]
        raise UserError(f"{self.file}:{number}: `{text}` is not as ddprun writes it; was the file changed by hand?")


def typed_value(word):
    if word in WORDS:
        value = WORDS[word]
        return type(value)() if isinstance(value, (list, dict)) else value
    if NUMBER.fullmatch(word):
        return int(word) if re.fullmatch(r"[-+]?\d+", word) else float(word)
    return word


def flat(config, prefix=""):
    """Returns {"optimizer.lr": 0.1, "loggers.0.plugin": "console"}."""
    pairs = config.items() if isinstance(config, dict) else enumerate(config)
    values = {}
    for key, value in pairs:
        nested = isinstance(value, (dict, list)) and value
        values |= flat(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return values

# SPDX-License-Identifier: MIT
"""Reads YAML with the line of each value, and with the types of ddprun's own files: 1e-3 is a number, yes is a text."""

import dataclasses
import difflib
import pathlib

import yaml

from ddprun.errors import UserError
from ddprun.overrides import typed_value

KINDS = {str: "a text", int: "a whole number", bool: "true or false"}


@dataclasses.dataclass(frozen=True)
class Node:
    """`value`: a dictionary of text and Node, a list of Node, or a text, number, boolean or None."""

    value: object
    file: pathlib.Path
    line: int

    def plain(self):
        """Returns the values without the lines."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def refuse(self, text):
        raise UserError(f"{self.file}:{self.line}: {text}")

    def unknown(self, what, found, known):
        near = difflib.get_close_matches(str(found), known, n=1, cutoff=0.5)
        hint = f" did you mean {near[0]}?" if near else ""
        self.refuse(f"{what}: {found} is unknown;{hint} known: {', '.join(known)}")

    def entries(self, what, known=None, former=()):
        """Returns a map's nodes. `former`: keys of W&B's sweeps that are none here, with what takes their place."""
        if not isinstance(self.value, dict):
            self.refuse(f"{what}: expected a map of keys, found {self.plain()}")
        for key, node in self.value.items():
            if key in former:
                node.refuse(f"{what}: there is no {key} here: {former[key]}")
            if known and key not in known:
                node.unknown(what, key, known)
        return self.value

    def typed(self, what, kind, least=None):
        """Returns the value, which must have this type and not be less."""
        fits = isinstance(self.value, kind) and isinstance(self.value, bool) == (kind is bool) and self.value != ""
        if not fits or least is not None and self.value < least:
            name = f"{KINDS.get(kind, 'a number')}{'' if least is None else f' of at least {least}'}"
            self.refuse(f"{what}: expected {name}, found {self.plain()}")
        return self.value

    def one_of(self, what, known):
        return self.value if self.value in known else self.unknown(what, self.plain(), known)


def read_yaml(file):
    try:
        root = yaml.compose(file.read_text(), Loader=yaml.SafeLoader)
        return convert(root, file) if root else Node({}, file, 1)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
        raise UserError(f"{place}: this is no YAML: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:  # an alias may hold itself
        raise UserError(f"{file}: is nested too deeply") from None


def convert(node, file, line=None):
    """`line`: of its key, where it has one."""
    line = line or node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        typed = node.style is None  # quoted, it is a text
        return Node((typed_value(node.value) if node.value not in ("", "~") else None) if typed else node.value, file, line)
    if isinstance(node, yaml.SequenceNode):
        return Node([convert(item, file) for item in node.value], file, line)
    entries = {}
    for key, value in node.value:
        at = Node(key.value, file, key.start_mark.line + 1)
        if not isinstance(key, yaml.ScalarNode):
            at.refuse("expected a name as the key")
        if key.value in entries:
            at.refuse(f"{key.value} is there twice")
        entries[key.value] = convert(value, file, at.line)
    return Node(entries, file, line)

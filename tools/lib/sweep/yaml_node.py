# SPDX-License-Identifier: MIT
"""Reads YAML with the line of each value, and with the types of ddprun's own files: 1e-3
is a number, yes is a text.
"""

import dataclasses

import yaml

from ddprun.config import typed_value
from ddprun.errors import UserError

MOST_VALUES = 10_000  # each alias counted as what it stands for
MOST_DEPTH = 32


@dataclasses.dataclass
class Node:
    """`value`: a dictionary of text and Node, a list of Node, or a text, number, boolean or None."""

    value: object
    line: int

    def plain(self):
        """Returns the values without the lines."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def read_yaml(file):
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
        raise UserError(f"{place}: this is no YAML: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise UserError(f"{file}: nests deeper than {MOST_DEPTH} levels") from None
    return convert(root, file, (), iter(range(MOST_VALUES))) if root else Node({}, 1)


def convert(node, file, parents, places):
    line = node.start_mark.line + 1
    if node in parents:
        raise UserError(f"{file}:{line}: an alias that holds itself")
    if len(parents) > MOST_DEPTH:
        raise UserError(f"{file}:{line}: nests deeper than {MOST_DEPTH} levels")
    if next(places, None) is None:
        raise UserError(f"{file}:{line}: more than {MOST_VALUES:,} values, with what aliases stand for")
    if isinstance(node, yaml.ScalarNode):
        if node.style is not None:  # quoted: a text
            return Node(node.value, line)
        return Node(typed_value(node.value) if node.value not in ("", "~") else None, line)
    if isinstance(node, yaml.SequenceNode):
        return Node([convert(item, file, (*parents, node), places) for item in node.value], line)
    entries = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise UserError(f"{file}:{key.start_mark.line + 1}: expected a name as the key")
        if key.value in entries:
            raise UserError(f"{file}:{key.start_mark.line + 1}: {key.value} is there twice")
        entries[key.value] = convert(value, file, (*parents, node), places)
        entries[key.value].line = key.start_mark.line + 1
    return Node(entries, line)

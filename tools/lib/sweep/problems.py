# SPDX-License-Identifier: MIT
import difflib
import sys

from ddprun.errors import UserError
from ddprun.terminal import printable


class Problems:
    """Mistakes in a file, each with its line; all are reported together."""

    def __init__(self, file):
        self.file, self.lines = file, []

    def add(self, node, text):
        self.lines.append((node.line, f"{self.file}:{node.line}: {text}"))

    def warn(self, node, text):
        """Tells at once of what is allowed and rarely meant."""
        print(printable(f"sweep: warning: {self.file}:{node.line}: {text}"), file=sys.stderr, flush=True)

    def unknown(self, node, what, found, known):
        near = difflib.get_close_matches(str(found), known, n=1, cutoff=0.5)
        hint = f" did you mean {near[0]}?" if near else ""
        self.add(node, f"{what}: {found} is unknown;{hint} known: {', '.join(known)}")

    def entries(self, node, what, known=None):
        """Returns the known keys of a map; None if it is not a map."""
        if not isinstance(node.value, dict):
            self.add(node, f"{what}: expected a map of keys, found {node.plain()}")
            return
        for key, value in node.value.items():
            if known and key not in known:
                self.unknown(value, what, key, known)
            else:
                yield key, value

    def typed(self, node, what, kind, least=None):
        """Returns the value; None if it has another type or is too small."""
        value = node.value
        fits = isinstance(value, kind) and not isinstance(value, bool) and value != ""
        if not fits or least is not None and value < least:
            name = {str: "a text", int: "a whole number"}.get(kind, "a number")
            self.add(
                node, f"{what}: expected {name}{'' if least is None else f' of at least {least}'}, found {node.plain()}"
            )
            return None
        return value

    def one_of(self, node, what, known):
        if node.value in known:
            return node.value
        if str(node.value).lower() in ("tpe", "optuna") and "bayes" in known:
            return self.add(node, f"{what}: {node.value} is called bayes here")
        return self.unknown(node, what, node.plain(), known)

    def refuse(self):
        """Raises if there are any."""
        if self.lines:
            raise UserError("\n".join(text for _, text in sorted(self.lines)))

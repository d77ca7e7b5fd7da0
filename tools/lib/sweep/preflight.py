# SPDX-License-Identifier: MIT
"""Checks before the first trial that the experiment has each parameter and accepts each of
its values, by asking the program.
"""

import concurrent.futures
import os
import re

from ddprun.errors import UserError
from sweep.space import override_text


def check_values(sweep, program, overrides):
    """Returns rows of values: the first value of all parameters, the second, ...; for ranges both ends."""
    if problems := program.problems(sweep.experiment, overrides):
        raise UserError("\n".join(problems))
    rows = list(probe_rows(sweep.parameters))
    with concurrent.futures.ThreadPoolExecutor(min(len(rows), os.cpu_count() or 1)) as pool:
        found = pool.map(lambda row: program.problems(sweep.experiment, [*overrides, *row]), rows)
    lines = {}  # a path that is not there is told once, with the first of its values
    for line in (line for problems in found for line in problems):
        lines.setdefault(what_is_wrong(line), placed(line, sweep))
    if lines:
        raise UserError("\n".join(sorted(lines.values(), key=line_number)))


def probe_rows(parameters):
    probes = {one.path: one.space.probes() for one in parameters}
    for i in range(max(map(len, probes.values()))):
        yield [f"{path}={override_text(values[min(i, len(values) - 1)])}" for path, values in probes.items()]


def placed(line, sweep):
    """Replaces the command line's place by the sweep file's line."""
    for parameter in sweep.parameters:
        if found := re.match(rf"command line: {re.escape(parameter.path)}=(.*?): (.*)", line):
            return f"{sweep.file}:{parameter.line}: with {parameter.path}={found[1]}: {found[2]}"
    return line


def what_is_wrong(line):
    """Drops the value that it was found with: the text names that again."""
    return re.sub(r"^command line: ([^=]*)=.*?: ", r"\1: ", line)


def line_number(text):
    found = re.match(r"[^:]*:(\d+): ", text)
    return int(found[1]) if found else 0

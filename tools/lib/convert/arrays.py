# SPDX-License-Identifier: MIT
"""Writes the columns of tables as arrays, for the dataset `tensors`."""

import numpy
from safetensors.numpy import save_file

from ddprun import UserError
from convert.sources import Table, is_table


def convert(splits, output, options):
    """Returns a line to be told for each split."""
    columns, names, lines = None, None, []
    for split, path in splits.items():
        if not is_table(path):
            raise UserError(f"{path}: expected a .parquet or .csv file, or a folder of such")
        table = Table(path)
        columns = columns or options.input or [name for name in table.columns if name != options.target]
        table = Table(path, [*columns, options.target])
        inputs, targets = values_of(table, columns, options, output, split)
        names = names or table.names.get(options.target) or (sorted(set(targets)) if isinstance(targets[0], str) else None)
        found = {"input": numpy.stack(inputs), "target": numbered(targets, names, path, next(iter(splits)))}
        save_file(found, output.file(f"{split}.safetensors"))
        shape = " x ".join(map(str, found["input"].shape[1:]))
        lines.append(f"{split}: {len(inputs):,} samples of {shape}, targets {found['target'].dtype}")
    if names:
        output.write_json("classes.json", names)
    return lines


def values_of(table, columns, options, output, split):
    """Returns the inputs of each row, float32, and the targets as they are."""
    inputs, targets = [], []
    for place, row in table.rows():
        try:
            parts = [numpy.asarray(row[name], numpy.float32) for name in columns]
        except (TypeError, ValueError):
            raise UserError(f"{place}: {bad_column(row, columns)}; --input names the columns of numbers") from None
        value = parts[0] if len(parts) == 1 and parts[0].ndim else numpy.concatenate([part.reshape(-1) for part in parts])
        if inputs and value.shape != inputs[0].shape:
            raise UserError(f"{place}: it has {value.shape} numbers, and the rows before have {inputs[0].shape}")
        if row[options.target] in (None, ""):
            raise UserError(f"{place}: the column {options.target} is empty")
        inputs.append(value)
        targets.append(row[options.target])
        output.progress(f"{split}: {len(inputs):,} rows")
    if not inputs:
        raise UserError(f"{table.path}: it has no rows")
    return inputs, read_numbers(targets)


def bad_column(row, columns):
    for name in columns:
        try:
            numpy.asarray(row[name], numpy.float32)
        except (TypeError, ValueError):
            return f"the column {name} holds {row[name]!r}, which is no number"
    return "it is no row of numbers"


def read_numbers(targets):
    """Returns numbers where all texts of a .csv file are numbers."""
    if not isinstance(targets[0], str):
        return targets
    for kind in (int, float):
        try:
            return [kind(text) for text in targets]
        except ValueError:
            continue
    return targets


def numbered(targets, names, path, first):
    """Returns int64 of classes, float32 of values. The split `first` has given the names."""
    if isinstance(targets[0], str):
        numbers = {name: number for number, name in enumerate(names)}
        unknown = sorted(set(targets) - set(numbers))
        if unknown:
            raise UserError(f"{path}: it has the class {unknown[0]}, which {first} has not")
        return numpy.array([numbers[name] for name in targets], numpy.int64)
    array = numpy.array(targets)
    if array.dtype.kind in "biu":
        return array.astype(numpy.int64)
    array = array.astype(numpy.float32)
    return array[:, None] if array.ndim == 1 else array

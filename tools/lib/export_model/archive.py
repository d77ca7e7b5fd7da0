# SPDX-License-Identifier: MIT
"""The file: torch.export's archive of the program for training, with the one for evaluation beside it, over the same weights.

    models/model.json       the program for training; torch.export.load(file) gives it
    extra/eval.json         the one for evaluation, in the same schema
    extra/ddprun.json       what else ddprun wants to know"""

import ctypes
import hashlib
import json
import pathlib
import tempfile

import torch
from ddprun import UserError
from torch._export.serde.serialize import SerializeError, serialize

FORMAT = 1  # of ddprun.json


def write_archive(file, programs, inputs, source):
    training, evaluation = programs
    try:
        text = evaluation_text(training, evaluation)
    except SerializeError as error:
        raise UserError(f"torch.export cannot write the program: {str(error).strip().splitlines()[0]}") from error
    about = {
        "format": FORMAT,
        "torch": torch.__version__,
        "source": source,
        "inputs": [one.name for one in inputs],
        "sha256": digest_of(training),
    }
    file = pathlib.Path(file)
    try:
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as folder:
            whole = pathlib.Path(folder) / file.name  # the archive's records begin with its name
            torch.export.save(training, whole, extra_files={"eval.json": text, "ddprun.json": json.dumps(about, indent=1)})
            whole.replace(file)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error


def digest_of(program):
    """Of all names and numbers, in the order of the names' bytes."""
    digest = hashlib.sha256()
    tensors = program.state_dict | {name: value for name, value in program.constants.items() if isinstance(value, torch.Tensor)}
    for name in sorted(tensors, key=str.encode):
        digest.update(name.encode())
        whole = tensors[name].detach().cpu().contiguous()
        digest.update(ctypes.string_at(whole.data_ptr(), whole.nbytes))  # torch comes without numpy
    return digest.hexdigest()


def evaluation_text(training, evaluation):
    """Its constants are written as those of the program for training, under names of their own where they differ."""
    program = json.loads(serialize(evaluation).exported_program)
    for spec in program["graph_module"]["signature"]["input_specs"]:
        for kind, key in (("tensor_constant", "tensor_constant_name"), ("buffer", "buffer_name")):
            constant = spec.get(kind)
            name = constant and constant[key]
            value = evaluation.constants.get(name) if name else None
            if value is None or same(training.constants.get(name), value):
                continue
            constant[key] = f"evaluation.{name}"
            training.constants[constant[key]] = value
    return json.dumps(program)


def same(one, other):
    return isinstance(one, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)

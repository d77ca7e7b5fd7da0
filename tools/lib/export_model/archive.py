# SPDX-License-Identifier: MIT
"""The file: torch.export's archive of the program for training, with the one for evaluation beside it, over the same weights.

    models/model.json       the program for training, or that of a loss; torch.export.load(file) gives it
    extra/eval.json         the one for evaluation, in the same schema
    extra/predict.json      the one for predictions, of a network that computes its loss and can do without the target
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
OTHERS = ("evaluation", "prediction"), ("eval.json", "predict.json")  # what programs after the first are for, and where they are


def write_archive(file, programs, inputs, source, results=None):
    """`programs` are those for training, for evaluation and, if there is one, for predictions; or that of a loss. `results` is what
    ddprun.json says of a loss, or of a network that computes it: {"results": their names, "over": what they are means over, "target":
    the input that is it}."""
    training = programs[0]
    extra = {}
    try:
        for program, use, record in zip(programs[1:], *OTHERS):
            extra[record] = text_of_other(training, program, use)
    except SerializeError as error:
        raise UserError(f"torch.export cannot write the program: {str(error).strip().splitlines()[0]}") from error
    about = {
        "format": FORMAT,
        "torch": torch.__version__,
        "source": source,
        "inputs": [one.name for one in inputs],
        "sha256": digest_of(training),
    }
    about |= results or {}
    file = pathlib.Path(file)
    try:
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as folder:
            whole = pathlib.Path(folder) / file.name  # the archive's records begin with its name
            torch.export.save(training, whole, extra_files={**extra, "ddprun.json": json.dumps(about, indent=1)})
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


def text_of_other(training, other, use):
    """Its constants are written as those of the program for training, under names of their own where they differ."""
    program = json.loads(serialize(other).exported_program)
    for spec in program["graph_module"]["signature"]["input_specs"]:
        for kind, key in (("tensor_constant", "tensor_constant_name"), ("buffer", "buffer_name")):
            constant = spec.get(kind)
            name = constant and constant[key]
            value = other.constants.get(name) if name else None
            if value is None or same(training.constants.get(name), value):
                continue
            constant[key] = f"{use}.{name}"
            training.constants[constant[key]] = value
    return json.dumps(program)


def same(one, other):
    return isinstance(one, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)

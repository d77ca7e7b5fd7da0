# SPDX-License-Identifier: MIT
"""Reads a checkpoint's model.safetensors: eight bytes with the length of a JSON header, the header, and the numbers."""

import functools
import importlib
import json
import math

from ddprun.errors import UserError

# By their names in the file: (bytes each, torch's name, numpy's). numpy has no bfloat16.
TYPES = {
    "F64": (8, "float64", "float64"),
    "F32": (4, "float32", "float32"),
    "F16": (2, "float16", "float16"),
    "BF16": (2, "bfloat16", None),
    "I64": (8, "int64", "int64"),
    "I32": (4, "int32", "int32"),
    "I16": (2, "int16", "int16"),
    "I8": (1, "int8", "int8"),
    "U8": (1, "uint8", "uint8"),
    "BOOL": (1, "bool", "bool"),
}
MOST_HEADER = 100_000_000  # bytes, the format's limit


def read_weights(file):
    """Returns {name: tensor}: torch's if torch is installed, otherwise numpy's."""
    make = tensor_maker(file)
    try:
        data = bytearray(file.read_bytes())  # writable, so that the tensors are
    except MemoryError:
        raise UserError(f"{file}: its {file.stat().st_size:,} bytes do not fit into the memory") from None
    return {name: make(data, *entry) for name, entry in read_header(file, data).items()}


def read_header(file, data):
    """Returns {name: (type, shape, byte where it begins)}."""
    length = int.from_bytes(data[:8], "little")
    try:
        if not 2 <= length <= min(MOST_HEADER, len(data) - 8):
            raise ValueError(f"its header cannot be {length} bytes long")
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        return {name: entry_of(name, entry, 8 + length, len(data)) for name, entry in header.items()}
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{file} is not a whole safetensors file: {error}; `ddprun verify` checks all of a run") from None


def entry_of(name, entry, begin, size):
    kind, shape, (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if kind not in TYPES:
        raise ValueError(f"{name} is of the unknown type {kind}")
    if not 0 <= first <= last <= size - begin or last - first != math.prod(shape) * TYPES[kind][0]:
        raise ValueError(f"the numbers of {name} are not all there")
    return kind, shape, begin + first


def tensor_maker(file):
    for name, tensor in (("torch", torch_tensor), ("numpy", numpy_array)):
        try:
            return functools.partial(tensor, importlib.import_module(name))
        except ModuleNotFoundError as error:
            if error.name != name:  # it is there, and broken
                raise
    raise UserError(f"{file}: weights need torch or numpy: pip install numpy")


def torch_tensor(torch, data, kind, shape, begin):
    count = math.prod(shape)
    dtype = getattr(torch, TYPES[kind][1])
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    # A copy: a file's tensors may be unaligned, and one that is kept would keep all others in memory.
    return torch.frombuffer(data, dtype=torch.uint8, count=count * TYPES[kind][0], offset=begin).clone().view(dtype).reshape(shape)


def numpy_array(numpy, data, kind, shape, begin):
    """Converts bfloat16 to float32, which has the same numbers and more."""
    count, dtype = math.prod(shape), TYPES[kind][2]
    if dtype is None:
        halves = numpy.frombuffer(data, numpy.uint16, count, begin)
        return (halves.astype(numpy.uint32) << 16).view(numpy.float32).reshape(shape)
    return numpy.frombuffer(data, dtype, count, begin).reshape(shape).copy()

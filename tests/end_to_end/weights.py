# SPDX-License-Identifier: MIT
"""Reads and writes .safetensors without the package of that name: eight bytes of length, a JSON header, the numbers."""

import json
import math

import torch

TYPES = {"F16": torch.float16, "F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "U8": torch.uint8, "BOOL": torch.bool, "BF16": torch.bfloat16}


def load(path):
    """{name: tensor}."""
    content = bytearray(path.read_bytes())
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        kind, shape = TYPES[entry["dtype"]], entry["shape"]
        assert end - start == math.prod(shape) * kind.itemsize, name
        count = math.prod(shape)
        values = torch.frombuffer(content, dtype=kind, count=count, offset=8 + length + start) if count else torch.empty(0, dtype=kind)
        tensors[name] = values.view(shape)
    return tensors


def save(path, tensors):
    """{name: tensor}, such as a state_dict."""
    kinds = {kind: name for name, kind in TYPES.items()}
    header, pieces, end = {}, [], 0
    for name, tensor in tensors.items():
        pieces.append(tensor.detach().contiguous().numpy().tobytes())
        begin, end = end, end + len(pieces[-1])
        header[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    path.write_bytes(b"".join([len(text).to_bytes(8, "little"), text, *pieces]))

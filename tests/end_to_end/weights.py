# SPDX-License-Identifier: MIT
"""Files of {name: tensor}, such as a state_dict: .safetensors, by the package of that name."""

import safetensors.torch


def load(path):
    return safetensors.torch.load(path.read_bytes())


def save(path, tensors):
    path.write_bytes(safetensors.torch.save({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}))

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Converts what torch.save() wrote to .safetensors, from which ddprun starts a training:

    tools/convert_weights resnet50.pth resnet50.safetensors
    ddprun experiments/mine.yaml pretrained.file=resnet50.safetensors

The file is read as tensors alone: code in it is not run. See `ddprun docs fine-tuning`."""

import argparse
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True

from tooling.place import command, fitting_torch  # noqa: E402
from tooling.start import run_tool, use_clones_python  # noqa: E402
from ddprun import UserError  # noqa: E402



def parse_arguments():
    parser = argparse.ArgumentParser(
        prog=command("convert_weights"), description=__doc__.replace("tools/convert_weights", command("convert_weights")), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", metavar="IN", help="a .pth, .pt or .bin file")
    parser.add_argument("target", metavar="OUT", help="the .safetensors file; one of that name is replaced")
    parser.add_argument("--key", metavar="NAME", help="the entry that holds the weights; by default state_dict, model or model_state_dict, or the whole")
    return parser.parse_args()


def write(tensors, target):
    """Writes a .safetensors file in the place of one that may be there."""
    import torch
    from convert_weights.checkpoint import unreadable
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    for name, tensor in tensors.items():
        if unreadable(tensor):
            raise UserError(f"{name} is {unreadable(tensor)}, which ddprun does not read")
    own = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}  # tied ones share memory
    with tempfile.TemporaryDirectory(dir=pathlib.Path(target).parent, prefix=".convert_weights.") as folder:
        written = pathlib.Path(folder, "weights")
        try:
            save_file(own, written, metadata={"format": "pt"})
        except SafetensorError as error:
            raise UserError(f"{target}: {error}") from error
        os.replace(written, target)


def main():
    options = parse_arguments()
    try:
        import numpy  # noqa: F401; safetensors needs it
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        use_clones_python()
        raise UserError(f"{error}: {sys.executable} -m pip install '{fitting_torch()}' safetensors numpy") from None
    from convert_weights.checkpoint import read_checkpoint, weights_in

    tensors, others, told = weights_in(read_checkpoint(options.source), options.key, options.source)
    try:
        write(tensors, options.target)
    except OSError as error:
        raise UserError(f"{options.target}: {error.strerror}") from error
    size = sum(tensor.numel() for tensor in tensors.values())
    left = f"; left out, as no tensors: {', '.join(others)}" if others else ""
    print(f"{options.target}: {len(tensors)} tensors, {size:,} numbers{told}{left}")
    return 0


if __name__ == "__main__":
    run_tool(main, command("convert_weights"))

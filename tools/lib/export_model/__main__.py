#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a PyTorch module as a file that ddprun trains without Python:

    tools/export_model my_net.py:Net --input 3x32x32 --out net.pt2
    ddprun experiments/cifar10_resnet18.yaml model=exported model.file=net.pt2

The module is exported for training and for evaluation, over one set of weights, and the exported programs are compared
with it: output, every gradient and every buffer, at another batch size. See docs/models.md."""

import argparse
import sys

sys.dont_write_bytecode = True

from tooling.place import command  # noqa: E402
from tooling.start import run_tool, use_clones_python  # noqa: E402
from ddprun import UserError  # noqa: E402


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog=command("export_model"), description=__doc__.replace("tools/export_model", command("export_model")), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("source", metavar="SOURCE", help="FILE.py:NAME (a class or a function), torchvision:resnet18, timm:vit_tiny_patch16_224 or "
        "transformers:GPT2LMHeadModel")
    add("--input", action="append", required=True, metavar="[NAME=]SIZES", dest="inputs",
        help="sizes of one sample: 3x32x32; 3x224+x224+ where sides may differ; 64:int64:1000 for 64 numbers below 1000. "
        "Again for a second one")
    add("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="an argument of the constructor, or of transformers' configuration")
    add("--output", metavar="NAME", help="which of several results is trained on; default: logits, or the only one")
    add("--weights", metavar="FILE", help="weights to begin with: .safetensors, or what torch.save(model.state_dict()) wrote")
    add("--seed", type=int, default=0, help="of the weights that the constructor draws (default 0)")
    add("--out", required=True, metavar="FILE", help="net.pt2; a file of that name is replaced")
    return parser.parse_args()


def load_weights(module, file):
    import pathlib

    from convert_weights.checkpoint import read_checkpoint, weights_in

    if not pathlib.Path(file).is_file():
        raise UserError(f"{file}: no such file")
    try:
        if file.endswith(".safetensors"):
            from safetensors.torch import load_file

            weights = load_file(file)
        else:
            weights, _, _ = weights_in(read_checkpoint(file), None, file)
        module.load_state_dict(weights)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{file}: {error}") from error


def main():
    options = parse_arguments()
    try:
        import torch
    except ImportError as error:
        use_clones_python()
        raise UserError(f"{error}: pip install torch==2.11.0, for {sys.executable}") from None
    from export_model.archive import write_archive
    from export_model.check import check_programs
    from export_model.hidden import check_module
    from export_model.inputs import parse_inputs
    from export_model.programs import export_programs
    from export_model.source import complete, make_module, parse_settings

    torch.manual_seed(options.seed)
    module = make_module(options.source, parse_settings(options.settings), options.output)
    inputs = parse_inputs(options.inputs, module)
    complete(module, inputs)
    if options.weights:
        load_weights(module, options.weights)
    check_module(module, inputs)
    programs = export_programs(module, inputs)
    check_programs(module, programs, inputs)
    write_archive(options.out, programs, inputs, options.source)
    trained = [one for one in module.parameters() if one.requires_grad]
    print(f"{options.out}: {options.source}, {sum(one.numel() for one in trained):,} trainable weights; checked against the module")
    narrow = {str(one.dtype).removeprefix("torch.") for one in trained if one.dtype in (torch.float16, torch.bfloat16)}
    if narrow:
        print(
            f"its weights are {' and '.join(sorted(narrow))}: ddprun computes their steps in float32, so that they do not have the bits of "
            "Python's; float32 weights with trainer.precision=bf16 do"
        )
    return 0


if __name__ == "__main__":
    run_tool(main, command("export_model"))

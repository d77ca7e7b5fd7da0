#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a PyTorch module as a file that ddprun trains without Python:

    tools/export_model my_net.py:Net --input 3x32x32 --out net.pt2
    ddprun experiments/cifar10_resnet18.yaml model=exported model.file=net.pt2

    tools/export_model my_loss.py:focal --loss --input prediction=10 --input target=:int64:10 --out focal.pt2
    ddprun experiments/cifar10_resnet18.yaml "objective={name: exported, file: focal.pt2}"

    tools/export_model my_net.py:Net --loss my_loss.py:both --input 3x32x32 --input target=:int64:10 --out net.pt2
    tools/export_model transformers:GPT2LMHeadModel --loss --input 64:int64:1000 --input labels=64:int64:1000 --out net.pt2
    ddprun experiments/own.yaml model=exported model.file=net.pt2

The module is exported for training and for evaluation, over one set of weights, and the exported programs are compared
with it: output, every gradient and every buffer, at another batch size. See `ddprun docs models`."""

import argparse
import contextlib
import sys

sys.dont_write_bytecode = True

from tooling.place import command, fitting_torch  # noqa: E402
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
    add("--loss", nargs="?", const=True, metavar="FILE.py:NAME", help="a function of what the network gives and of the target, which is put "
        "into the program. Without a name, SOURCE is the loss: a network that computes it, or a function of prediction and target, for the "
        "objective `exported`; --input gives the sizes of all that is taken")
    add("--target", metavar="NAME", help="which input of a network that computes its loss is the batch's target; default: labels or target")
    add("--prediction", metavar="NAME", help="which of several results of such a network is the prediction; default: logits, or the only one")
    add("--seed", type=int, default=0, help="of the weights that the constructor draws (default 0)")
    add("--out", required=True, metavar="FILE", help="net.pt2; a file of that name is replaced")
    return parser.parse_args()


def load_weights(module, file):
    import pathlib

    from convert_weights import read_checkpoint, weights_in

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


def is_loss_alone(made):
    """Whether it is no network: it has no weights, or takes a prediction."""
    import inspect

    if not hasattr(made, "parameters"):
        return True
    return not list(made.parameters()) or next(iter(inspect.signature(made.forward).parameters), None) == "prediction"


def write_loss(made, options):
    from export_model.archive import write_archive
    from export_model.hidden import check_module
    from export_model.inputs import parse_inputs
    from export_model.loss import as_loss, export_loss
    from export_model.means import means_of

    for name in ("output", "weights", "target", "prediction"):
        if getattr(options, name):
            raise UserError(f"--{name} is for a network, and {options.source} is a loss: leave one of them out")
    module = as_loss(made, options.source)
    inputs = parse_inputs(options.inputs, module)
    program = export_loss(module, inputs)
    check_module(module, inputs)
    over, unknown = means_of(module, module.names, inputs, inputs[1].name)
    write_archive(options.out, [program], inputs, options.source, {"results": list(module.names), "over": over})
    print(f"{options.out}: {options.source}, a loss{with_metrics(module.names)}; checked against the function")
    warn_of_unknown(unknown)
    return 0


def with_metrics(names):
    return f" with the metrics {', '.join(names[1:])}" if names[1:] else ""


def warn_of_unknown(unknown):
    for name, reason in unknown.items():
        print(f"{name} is taken for a mean over samples, and {reason}: if it is none, several workers or micro-batches, which compute it of "
              "each part, differ from the whole batch", file=sys.stderr)  # fmt: skip


def write_network(made, options):
    """Returns the trainable parameters, and what the network gives besides a prediction, in words."""
    from export_model.archive import write_archive
    from export_model.hidden import check_module
    from export_model.inputs import parse_inputs
    from export_model.outputs import give_one_tensor, own_loss
    from export_model.source import as_network, complete
    from export_model.transformers_config import about_transformers

    module = as_network(made, options.source)
    own = own_loss(module, options)
    if own is None:
        give_one_tensor(module, options.output)
    inputs = parse_inputs(options.inputs, module)
    if own:
        own.require(inputs)
    complete(module, inputs)
    if options.weights:
        with own.apart() if own else contextlib.nullcontext():
            load_weights(module, options.weights)
    check_module(module, inputs)
    programs = checked_programs(module, inputs)
    trained = [one for one in module.parameters() if one.requires_grad]
    about, what = about_loss(own, inputs) if own else ({}, "")
    if own:
        programs += prediction_program(own, inputs)
    write_archive(options.out, programs, inputs, options.source, about | about_transformers(module))
    return trained, what


def checked_programs(module, inputs, modes=(True, False)):
    from export_model.check import check_programs
    from export_model.programs import export_programs

    programs = export_programs(module, inputs, modes)
    check_programs(module, programs, inputs, modes)
    return programs


def about_loss(own, inputs):
    """Returns what ddprun.json says of a loss that the network computes, and the same in words."""
    from export_model.means import means_of

    target = own.target(inputs)
    over, unknown = means_of(own.module, own.names, inputs, target)
    warn_of_unknown(unknown)
    words = f"; it computes its loss{f' from the target {target}' if target else ''}{with_metrics(own.names)}"
    return {"results": list(own.names), "over": over, "network": True, "target": target}, words


def prediction_program(own, inputs):
    """Returns none, and says why, where the network gives no prediction without its loss."""
    try:
        return checked_programs(own.module, own.predict(inputs), modes=(False,))
    except UserError as error:
        if own.options.prediction:
            raise
        print(f"it gives no prediction, which ddprun predict and ddprun export want: {error}", file=sys.stderr)
        return []


def seed_generators(seed):
    """Keras draws by seeds that it takes from Python's."""
    import random

    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def main():
    options = parse_arguments()
    try:
        import torch
    except ImportError as error:
        use_clones_python()
        raise UserError(f"{error}: {sys.executable} -m pip install '{fitting_torch()}'") from None
    from export_model.source import make, parse_settings

    seed_generators(options.seed)
    made = make(options.source, parse_settings(options.settings), is_loss=options.loss is True)
    if options.loss is True and is_loss_alone(made):
        return write_loss(made, options)
    trained, what = write_network(made, options)
    print(f"{options.out}: {options.source}, {sum(one.numel() for one in trained):,} trainable weights{what}; checked against the module")
    narrow = {str(one.dtype).removeprefix("torch.") for one in trained if one.dtype in (torch.float16, torch.bfloat16)}
    if narrow:
        print(
            f"its weights are {' and '.join(sorted(narrow))}: ddprun computes their steps in float32, so that they do not have the bits of "
            "Python's; float32 weights with trainer.precision=bf16 do"
        )
    return 0


if __name__ == "__main__":
    run_tool(main, command("export_model"))

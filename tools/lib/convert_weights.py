# SPDX-License-Identifier: MIT
"""Converts what torch.save() wrote to .safetensors, from which ddprun starts a training:

    tools/convert_weights resnet50.pth resnet50.safetensors
    ddprun experiments/mine.yaml pretrained.file=resnet50.safetensors

The file is read as tensors alone: code in it is not run. See `ddprun docs fine-tuning`."""

import argparse
import os
import pathlib
import pickle
import re
import sys
import tempfile
import warnings

sys.dont_write_bytecode = True

from tooling.place import command, fitting_torch  # noqa: E402
from tooling.start import run_tool, use_clones_python  # noqa: E402
from ddprun import UserError  # noqa: E402

READ = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")  # what ddprun reads and writes
KEYS = ("state_dict", "model", "model_state_dict")  # under which scripts keep the weights beside other things
UNKNOWN = re.compile(r"Unsupported global: GLOBAL (\S+) was not an allowed global")


class LikeDict(type):
    """torch.load() fills dictionaries alone, and asks for their class by ==."""

    def __eq__(cls, other):
        return cls is other or other is dict

    __hash__ = type.__hash__


class Placeholder(metaclass=LikeDict):
    """Stands where a file has an object of an unknown class, or what an unknown function would return. It keeps nothing: no code
    of the file runs."""

    def __init__(self, *_):
        pass

    def __setstate__(self, _):
        pass

    def __setitem__(self, *_):
        pass


def read_checkpoint(file):
    """Returns what the file holds, with placeholders for what neither is a tensor nor is made of Python's own types: trainers put
    arguments, states and numbers of any class beside the weights."""
    import torch

    try:
        names = set(torch.serialization.get_unsafe_globals_in_checkpoint(file))
    except Exception:  # of a file in torch's old format, or none of torch's: loading finds out
        names = set()
    while True:
        stand_ins = [(type(name, (Placeholder,), {}), name) for name in names]
        try:
            with torch.serialization.safe_globals(stand_ins), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return torch.load(file, map_location="cpu", weights_only=True)
        except OSError as error:
            raise UserError(f"{file}: {error.strerror or error}") from error
        except Exception as error:
            unknown = UNKNOWN.search(str(error)) if isinstance(error, pickle.UnpicklingError) else None
            if unknown is None or unknown[1] in names:
                raise UserError(
                    f"{file}: it cannot be read as tensors alone: {reason_of(error)}. If you trust the file, save its weights in "
                    "Python: torch.save(module.state_dict(), ...)"
                ) from error
            names |= {unknown[1], f"builtins.{unknown[1]}"}  # the message leaves "builtins." out


def reason_of(error):
    """Returns what torch.load() found, without the advice that it puts around it."""
    found = error.__context__ or error
    text = " ".join(str(found).split()).rstrip(". ")
    return text if isinstance(found, (pickle.UnpicklingError, RuntimeError)) else f"{type(found).__name__} {text}".rstrip()


def weights_in(content, key, file):
    """Returns {name: tensor}, the names of what is none, and what else is to be said."""
    if isinstance(content, Placeholder):
        raise UserError(
            f"{file}: it holds a whole module, {type(content).__name__}, which only its own code can make: save its weights in "
            "Python: torch.save(module.state_dict(), ...)"
        )
    if not isinstance(content, dict):
        raise UserError(f"{file}: it holds a {type(content).__name__}, expected the weights of a module by name")
    if key is None:
        key = next((one for one in KEYS if isinstance(content.get(one), dict)), None)
    elif not isinstance(content.get(key), dict):
        raise UserError(f"{file}: it has no weights under {key!r}; there are {entries(content)}")
    found = content if key is None else content[key]
    tensors = tensors_in(found)
    others = [str(name) for name in found if str(name) not in tensors]
    if not tensors:
        raise UserError(f"{file}: there are no tensors in it; there are {entries(found)}: --key names the entry that holds the weights")
    return tensors, others, choice(content, key)


def tensors_in(entry):
    import torch

    return {str(name): value for name, value in entry.items() if isinstance(value, torch.Tensor)}


def entries(found):
    shown = (f"{name!r} ({type(value).__name__})" if isinstance(value, Placeholder) else repr(name) for name, value in found.items())
    return ", ".join(shown) or "no entries"


def choice(content, key):
    """Returns which of several entries with weights was taken: a moving average lies beside what was trained."""
    weights = [name for name, value in content.items() if isinstance(value, dict) and tensors_in(value)]
    others = [repr(name) for name in weights if name != key]
    if not others:
        return ""
    return f"; these are those of {'the whole' if key is None else repr(key)}: --key takes {' or '.join(others)}"


def unreadable(tensor):
    """Returns what kind of tensor it is, if ddprun neither reads nor writes it; else None."""
    kind = str(tensor.dtype).removeprefix("torch.")
    if str(tensor.layout) != "torch.strided":
        return f"a tensor of {kind} ({tensor.layout})"
    return f"a tensor of {kind}" if tensor.is_quantized or kind not in READ else None


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog=command("convert_weights"),
        description=__doc__.replace("tools/convert_weights", command("convert_weights")),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="IN", help="a .pth, .pt or .bin file")
    parser.add_argument("target", metavar="OUT", help="the .safetensors file; one of that name is replaced")
    parser.add_argument("--key", metavar="NAME", help="the entry that holds the weights; by default state_dict, model or model_state_dict, or the whole")
    return parser.parse_args()


def write(tensors, target):
    """Writes a .safetensors file in the place of one that may be there."""
    import torch
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
    tensors, others, remark = weights_in(read_checkpoint(options.source), options.key, options.source)
    try:
        write(tensors, options.target)
    except OSError as error:
        raise UserError(f"{options.target}: {error.strerror}") from error
    size = sum(tensor.numel() for tensor in tensors.values())
    left = f"; left out, as no tensors: {', '.join(others)}" if others else ""
    print(f"{options.target}: {len(tensors)} tensors, {size:,} numbers{remark}{left}")
    return 0


if __name__ == "__main__":
    run_tool(main, command("convert_weights"))

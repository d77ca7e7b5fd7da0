# SPDX-License-Identifier: MIT
"""What a module is exported and checked with: --input 3x32x32, or --input input_ids=64:int64:1000."""

import dataclasses
import inspect
import re

import torch
from ddprun import UserError

TYPES = {"float32": torch.float32, "int64": torch.int64, "bool": torch.bool}
SYNTAX = (
    "[NAME=]SIZES[:TYPE[:BELOW]], such as 3x32x32, 3x224+x224+ (sides that may differ), input_ids=64:int64:1000 or, for one number "
    "a sample, t=:int64:1000"
)
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
RESERVED = "index"  # of the batch itself: the samples' numbers


@dataclasses.dataclass(frozen=True)
class Input:
    name: str  # of the argument of forward()
    sizes: tuple  # of one sample
    varying: tuple  # of each size, whether other samples may have another
    type: str = "float32"
    below: int = 2  # of int64: values lie in [0, below)

    def example(self, batch, generator):
        shape = (batch, *self.sizes)
        if self.type == "float32":
            return torch.randn(shape, generator=generator)
        if self.type == "bool":
            return torch.rand(shape, generator=generator) < 0.8
        return torch.randint(0, self.below, shape, generator=generator)

    def dynamic(self):
        sides = {0: torch.export.Dim.DYNAMIC}
        return sides | {i + 1: torch.export.Dim.DYNAMIC for i, varies in enumerate(self.varying) if varies}


def parse_input(word, default_name):
    name, equals, rest = word.rpartition("=")
    sizes, *more = rest.split(":")
    single = equals and not sizes
    if not single and not re.fullmatch(r"\d+\+?(x\d+\+?)*", sizes) or len(more) > 2:
        raise UserError(f"--input {word}: expected {SYNTAX}")
    parts = sizes.split("x") if sizes else []
    kind = more[0] if more else "float32"
    if kind not in TYPES:
        raise UserError(f"--input {word}: {kind}: expected one of {', '.join(TYPES)}")
    if kind == "int64" and (len(more) < 2 or not more[1].isdigit() or int(more[1]) < 1):
        raise UserError(f"--input {word}: how many different values there are is missing: {sizes}:int64:1000")
    return Input(
        name=name if equals else default_name,
        sizes=tuple(int(part.rstrip("+")) for part in parts),
        varying=tuple(part.endswith("+") for part in parts),
        type=kind,
        below=int(more[1]) if len(more) > 1 else 2,
    )


def parse_inputs(words, module):
    """Without a name, the first is forward()'s first argument, and so on."""
    arguments = [name for name, one in signature_of(module).parameters.items() if one.kind in NAMED]
    if not arguments:
        raise UserError(
            f"forward() of {type(module).__name__} names no arguments (*args, **kwargs), and an exported program is called by their names: "
            "wrap it in a module whose forward(self, images) hands them on"
        )
    inputs = []
    for i, word in enumerate(words):
        one = parse_input(word, arguments[i] if i < len(arguments) else "")
        if one.name not in arguments:
            raise UserError(f"--input {word}: forward() has no argument {one.name}; known: {', '.join(arguments)}")
        if inputs and one.name == RESERVED:
            raise UserError(
                f"--input {word}: a batch has a tensor {RESERVED} of its own, the samples' numbers, so an extra cannot have this name: "
                "name forward()'s argument otherwise"
            )
        inputs.append(one)
    return inputs


def signature_of(module):
    """Returns that of the module inside where forward(*args, **kwargs) hands all on."""
    signature = inspect.signature(module.forward)
    kinds, inside = {one.kind for one in signature.parameters.values()}, list(module.children())
    if len(inside) == 1 and inspect.Parameter.VAR_KEYWORD in kinds and not kinds & set(NAMED):
        return signature_of(inside[0])
    return signature


def examples(inputs, batch, seed):
    generator = torch.Generator().manual_seed(seed)
    return {one.name: one.example(batch, generator) for one in inputs}

# SPDX-License-Identifier: MIT
"""A model of Keras 3, on its torch backend, as a torch module.

Keras' layers take their weights from its variables, which torch.export cannot replace by the program's. Here each call hands the
weights to Keras instead (StatelessScope), and takes back what it has made of running statistics."""

import inspect
import os
import shlex
import sys

import torch
from ddprun import UserError
from tooling.place import command

SEED_STATE = "seed_generator_state"  # what Keras calls the variables of its generators


def prefer_torch():
    """Keras reads this when it is imported; a backend that somebody has chosen stays."""
    os.environ.setdefault("KERAS_BACKEND", "torch")


def is_keras(model):
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(model, keras.layers.Layer)


def from_keras(model, source):
    """Returns the KerasModel of a model or layer of Keras."""
    keras = sys.modules["keras"]
    if keras.backend.backend() != "torch":
        words = shlex.join([command("export_model"), *sys.argv[1:]])
        raise UserError(
            f"{source} is a model of Keras on {keras.backend.backend()}, and torch exports those on torch: KERAS_BACKEND=torch {words}; "
            "where the file itself sets KERAS_BACKEND, set it to torch there"
        )
    return KerasModel(model)


class KerasModel(torch.nn.Module):
    """Its parameters and buffers are the model's own tensors, by the paths of Keras' variables: dense.kernel, dense.bias. It has them
    after build()."""

    def __init__(self, model):
        super().__init__()
        object.__setattr__(self, "model", model)  # no part of this module: its tensors are
        object.__setattr__(self, "variables", {})  # {name: variable of Keras}
        symbols = list(getattr(model, "inputs", None) or [])  # that Keras has made of its inputs: none for a call() of one's own
        object.__setattr__(self, "symbols", symbols)
        self.forward = self.make_forward()

    def make_forward(self):
        """forward() with the names of the model's inputs."""
        names = self.input_names()

        def forward(*args, **kwargs):
            given = signature.bind(*args, **kwargs).arguments
            return self.run(list(given.values()))

        signature = inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])
        forward.__signature__ = signature
        return forward

    def input_names(self):
        if self.symbols:
            return [name_of(one.name) for one in self.symbols]
        arguments = inspect.signature(self.model.call).parameters.values()
        return [one.name for one in arguments if one.kind == one.POSITIONAL_OR_KEYWORD and one.name not in ("training", "mask")]

    def build(self, given):
        """Calls the model once, which makes the weights of layers that have none, and registers them."""
        for problem in (self.refuse_lost_parts, lambda: self.run(list(given.values())), self.refuse_lost_parts):
            problem()
        replace_generators()
        weights = {id(one) for part in self.model._flatten_layers() for one in part._trainable_variables}
        for variable in self.model.variables:
            if variable.name != SEED_STATE:
                self.register(variable, id(variable) in weights)
        self.warn()

    def register(self, variable, is_weight):
        name = variable.path.replace("/", ".")
        if name in self.variables:
            raise UserError(f"two variables of Keras are called {variable.path}: give their layers names of their own, name=...")
        *path, last = name.split(".")
        owner = self
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, torch.nn.Module())
            owner = owner._modules[part]
        if is_weight:
            owner.register_parameter(last, variable.value)  # without requires_grad below trainable=False
        else:
            owner.register_buffer(last, variable.value.detach())
        self.variables[name] = variable

    def run(self, values):
        keras = sys.modules["keras"]
        arguments = self.arranged([fitted(value, symbol) for value, symbol in zip(values, self.symbols or [None] * len(values))])
        tensors = {name: self.get_tensor(name) for name in self.variables}
        if not tensors:
            return self.model(*arguments, training=self.training)
        with keras.StatelessScope(state_mapping=[(self.variables[name], tensor) for name, tensor in tensors.items()]) as scope:
            output = self.model(*arguments, training=self.training)
        for name, tensor in tensors.items():
            now = scope.get_current_value(self.variables[name])
            if now is not None and now is not tensor:
                tensor.copy_(now.detach())
        return output

    def arranged(self, values):
        """As the model takes them: a dictionary or a list where it was made with one."""
        if len(self.symbols) < 2:
            return values
        return [sys.modules["keras"].tree.pack_sequence_as(self.model.input, values)]

    def hidden_parts(self):
        """[(path, layer)] of Keras, whose attributes are no part of a program either."""
        return [(one.path, one) for one in self.model._flatten_layers()]

    def get_tensor(self, name):
        path, _, last = name.rpartition(".")
        return getattr(self.get_submodule(path), last)

    def refuse_lost_parts(self):
        """What fit() does besides the loss of the outputs."""
        parts = [one for one in self.model._flatten_layers()]
        adds = sorted({one.name for one in parts if one._losses})
        for one in self.model.variables:
            if getattr(one, "regularizer", None) is not None:
                adds.append(one.path)
            if getattr(one, "constraint", None) is not None:
                raise UserError(f"{one.path} has a constraint, which fit() applies after each step, and ddprun would not: leave it out")
        if adds:
            raise UserError(
                f"{', '.join(adds[:5])}: losses besides that of the output (a regularizer, add_loss) are no part of the exported program, "
                "which would train without them: leave them out; optimizer.weight_decay shrinks weights"
            )

    def warn(self):
        if getattr(self.model, "compiled", False):
            print("Keras' compile() is not taken: optimizer, loss and metrics are those of the experiment", file=sys.stderr)
        layers = getattr(self.model, "layers", None) or [self.model]
        if getattr(getattr(layers[-1], "activation", None), "__name__", "") in ("softmax", "sigmoid"):
            kind = layers[-1].activation.__name__
            objective = "cross_entropy" if kind == "softmax" else "bce"
            print(
                f"warning: the last layer, {layers[-1].name}, ends with {kind}, and the objective {objective} takes logits, as from_logits=True "
                f"does: leave it out (activation=None) for that",
                file=sys.stderr,
            )


def name_of(symbol):
    """keras.Input(name="token ids") as the name of an argument."""
    name = "".join(letter if letter.isalnum() else "_" for letter in symbol)
    return name if name.isidentifier() else f"input_{name}"


def fitted(value, symbol):
    """Pictures of ddprun's datasets, [B, C, H, W], as the model takes them: [B, H, W, C]."""
    if symbol is None or value.dim() != len(symbol.shape) or value.dim() < 4 or fits(value.shape, symbol.shape):
        return value
    moved = value.movedim(1, -1)
    return moved if fits(moved.shape, symbol.shape) else value


def fits(shape, expected):
    return all(size is None or found == size for found, size in zip(shape[1:], expected[1:]))


def replace_generators():
    """Keras draws from generators with seeds of their own; a program draws from torch's, in each step anew."""
    from keras.src.backend.torch import image, random

    random.torch_seed_generator = lambda seed: None
    image._torch_seed_generator = lambda seed: None

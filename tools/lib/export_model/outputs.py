# SPDX-License-Identifier: MIT
"""What forward() gives, as a program gives it: one tensor, the prediction; or loss and metrics, where the network computes them, and
in a program of its own the prediction, which does not know the target."""

import contextlib
import functools
import inspect

import torch
from ddprun import UserError
from export_model.inputs import NAMED, signature_of
from export_model.loss import LOSS, named_losses
from export_model.source import make

TARGETS = ("labels", "target", "targets")  # what the argument for it is usually called


def give_one_tensor(module, output):
    original, signature = module.forward, signature_of(module)

    def forward(*args, **kwargs):
        return one_tensor(original(*args, **kwargs), output)

    replace_forward(module, forward, signature)


def replace_forward(module, forward, signature):
    @functools.wraps(type(module).forward)
    def called(*args, **kwargs):
        return forward(*args, **kwargs)

    called.__signature__ = signature
    module.forward = called


def one_tensor(result, output, option="--output"):
    if isinstance(result, torch.Tensor):
        if result.dim() == 0:
            raise UserError("forward() gives one number: if it is the loss, say so with --loss")
        return result
    parts = named_parts(result)
    wanted = output or ("logits" if "logits" in parts else next(iter(parts)) if len(parts) == 1 else None)
    if wanted in parts:
        return parts[wanted]
    if not parts:
        raise UserError(f"forward() gives a {type(result).__name__} without a tensor at its top: expected a tensor, or a tuple or a dictionary "
                        "of tensors")  # fmt: skip
    names = ", ".join(parts)
    use = "is the prediction" if option == "--prediction" else "is trained on"
    problem = f"there is no {output}" if output else f"which of them {use} is not clear"
    raise UserError(f"forward() gives {names}: {problem}; {option} NAME chooses one")


def named_parts(result):
    if hasattr(result, "_asdict"):
        result = result._asdict()
    items = result.items() if isinstance(result, dict) else enumerate(result) if isinstance(result, (list, tuple)) else []
    return {str(key): value for key, value in items if isinstance(value, torch.Tensor)}


def own_loss(module, options):
    """Returns None for a network that gives a prediction alone."""
    if options.loss is None:
        for name in ("target", "prediction"):
            if getattr(options, name):
                raise UserError(f"--{name} is for a network that computes its loss: --loss is missing")
        return None
    return OwnLoss(module, options, None if options.loss is True else make(options.loss, {}, is_loss=True))


class OwnLoss:
    """A network that computes its loss: by itself, or with a function of what it gives. As this is made, forward() gives a tuple of the
    loss and the metrics, whose names are in `names` after the first call."""

    def __init__(self, module, options, loss=None):
        self.module, self.loss, self.options = module, loss, options
        self.original, self.own = module.forward, arguments_of(signature_of(module))
        self.names = []
        joined = arguments_of(inspect.signature(callable_of(loss))) if callable(loss) else {}
        self.besides = dict(list(joined.items())[1:])  # what the loss takes after what the network gives: the target first, if it has one
        if loss is not None and not joined:
            raise UserError("--loss: expected a function of what the network gives and of the target, such as joint(outputs, target); one "
                            "without a target takes what the network gives alone")  # fmt: skip
        if isinstance(loss, torch.nn.Module):
            self.add_part(loss)
        self.replace(self.computed, self.own | self.besides)

    def add_part(self, loss):
        """Weights of the loss, such as those of its tasks, are trained with the network's: as loss.NAME."""
        if hasattr(self.module, "loss"):
            raise UserError("--loss: the network has a part `loss` already, where the weights of this one would be: give it another name")
        self.module.add_module("loss", loss)

    @contextlib.contextmanager
    def apart(self):
        """The network without the loss's part, as files of its weights know it."""
        parts = dict(self.module._modules)
        if isinstance(self.loss, torch.nn.Module):
            del self.module._modules["loss"]
        yield
        self.module._modules.update(parts)

    def replace(self, forward, arguments):
        replace_forward(self.module, forward, inspect.Signature([one.replace(kind=one.KEYWORD_ONLY) for one in arguments.values()]))

    def computed(self, **given):
        output = self.original(**{name: value for name, value in given.items() if name in self.own})
        if self.loss is None:
            losses = losses_among(named_parts(output) if not isinstance(output, torch.Tensor) else {LOSS: output}, self.options.output)
        else:
            output = one_tensor(output, self.options.output) if self.options.output else output
            losses = named_losses(self.loss(output, **{name: given[name] for name in self.besides if name in given}))
        self.names[:] = list(losses)
        return tuple(losses.values())

    def require(self, inputs):
        """Raises UserError for an argument of the loss that is none of the inputs."""
        given = {one.name for one in inputs}
        for name, argument in self.besides.items():
            if name not in given and argument.default is inspect.Parameter.empty:
                raise UserError(f"{self.options.loss} takes {name}: --input {name}=SIZES is missing")

    def target(self, inputs):
        """Returns which of the inputs is the batch's target, or nothing."""
        names = [one.name for one in inputs][1:]
        wanted = self.options.target
        if wanted and wanted not in names:
            raise UserError(f"--target {wanted}: expected one of the --input after the first: {', '.join(names) or 'there is none'}")
        known = list(self.besides)[:1] or TARGETS
        return wanted or next((name for name in known if name in names), None)

    def predict(self, inputs):
        """From here on forward() gives the prediction, without the target. Returns its inputs. A UserError says why there is none."""
        target = self.target(inputs)
        if self.loss is None and (target is None or self.own[target].default is inspect.Parameter.empty):
            raise UserError(f"forward() cannot be called without {target or 'what the loss needs'}: with a default, such as "
                            f"{target or 'target'}=None, it can, and gives the prediction then")  # fmt: skip
        given = {one.name: one for one in inputs if one.name in self.own and one.name != target}
        self.replace(lambda **inputs: one_tensor(self.original(**inputs), self.options.prediction, "--prediction"),
                     {name: self.own[name] for name in given})  # fmt: skip
        return list(given.values())


def arguments_of(signature):
    return {name: one for name, one in signature.parameters.items() if one.kind in NAMED}


def callable_of(loss):
    return loss.forward if isinstance(loss, torch.nn.Module) else loss


def losses_among(parts, output):
    """Of what a network gives: the loss and, of the rest, what is one number."""
    name = output or LOSS
    if name not in parts or parts[name].dim() != 0:
        found = f"[{', '.join(map(str, parts[name].shape))}] as {name}" if name in parts else ", ".join(parts) or "no tensor"
        raise UserError(f"forward() gives {found}: expected the loss, one number, as {LOSS}, or as what --output NAME names")
    return {LOSS: parts[name]} | {key: value for key, value in parts.items() if value.dim() == 0 and key not in (name, LOSS)}

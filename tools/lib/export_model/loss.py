# SPDX-License-Identifier: MIT
"""A loss as a program: a function of prediction and target, which the model plugins know nothing of and the objective `exported` runs."""

import inspect

import torch
from ddprun import UserError
from export_model.inputs import NAMED, examples
from export_model.programs import export_program, quiet, refuse_foreign_operators

BATCH, SEED = 4, 5
TOLERANCE = 1e-5
LOSS = "loss"  # the name of it among results
SAMPLE = "prediction=10 --input target=:int64:10"


def as_loss(made, source):
    """Returns the module of a function(prediction, target), or of a torch module without weights that is called so."""
    named = [one.name for one in inspect.signature(made.forward if isinstance(made, torch.nn.Module) else made).parameters.values()
             if one.kind in NAMED and one.default is one.empty]  # fmt: skip
    if len(named) != 2:
        raise UserError(f"{source} takes {', '.join(named) or 'no arguments'}: expected a loss of two, such as focal(prediction, target)")
    if isinstance(made, torch.nn.Module) and list(made.parameters()):
        raise UserError(f"{source} has weights of its own, which are trained with those of a network: export that with --loss {source}")
    home = getattr(made, "func", made).__module__  # whose globals calls may change
    return type("Loss", (Loss,), {"__module__": home})(made, named)


class Loss(torch.nn.Module):
    """Gives the loss, or a tuple of it and the metrics, whose names are in `names` after the first call."""

    def __init__(self, made, arguments):
        super().__init__()
        self.made = made
        object.__setattr__(self, "names", [])

        def forward(*args, **kwargs):
            return self.results(made(*signature.bind(*args, **kwargs).args))

        signature = inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in arguments])
        forward.__signature__ = signature
        self.forward = forward

    def results(self, result):
        results = named_losses(result)
        self.names[:] = list(results)
        return tuple(results.values()) if len(results) > 1 else results[LOSS]


def named_losses(result):
    """Returns what a loss gives as {name: value}, the loss first."""
    results = {LOSS: result} if isinstance(result, torch.Tensor) else result
    if not isinstance(results, dict) or LOSS not in results:
        found = f"a dictionary of {', '.join(map(str, results))}" if isinstance(results, dict) else f"a {type(result).__name__}"
        raise UserError(f"the loss gives {found}: expected a tensor, or a dictionary with loss and metrics")
    results = {LOSS: results[LOSS]} | {str(name): value for name, value in results.items()}
    for name, value in results.items():
        if not isinstance(value, torch.Tensor) or value.dim() != 0:
            what = list(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise UserError(f"the loss gives {what} as {name}: expected a tensor of one number, the mean over the batch")
    return results


def export_loss(module, inputs):
    """Returns the program, which gives what the function gives, and its gradient."""
    if len(inputs) != 2:
        raise UserError(f"a loss takes two inputs, the prediction and the target, such as --input {SAMPLE}")
    if inputs[0].type != "float32":
        raise UserError(f"--input {inputs[0].name}: a prediction is float32, and the first of the two inputs")
    outcome(module, inputs, slice(0, BATCH))  # says what is wrong in its own words
    program = export_program(module, inputs)
    refuse_foreign_operators(program)
    for part in (slice(0, BATCH), slice(0, BATCH - 1)):
        expected, found = outcome(module, inputs, part), outcome(program.module(), inputs, part)
        for name, mine, others in zip((*module.names, "the gradient"), expected, found, strict=True):
            if not torch.allclose(mine, others, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
                raise UserError(f"{name} is another in the exported program than in the function, at a batch of {part.stop}")
    return program


def outcome(call, inputs, part):
    """The results, and the gradient of the prediction."""
    given = {name: value[part] for name, value in examples(inputs, BATCH, SEED).items()}
    prediction = given[inputs[0].name] = given[inputs[0].name].clone().requires_grad_()
    try:
        with quiet():
            results = call(**given)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        if not results[0].requires_grad:
            raise UserError("the loss does not depend on the prediction: is there a detach(), an argmax() or no_grad() in it?")
        (gradient,) = torch.autograd.grad(results[0], prediction)
    except UserError:
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise UserError(f"with a batch of {given[inputs[0].name].shape[0]}: {type(error).__name__}: {first}") from error
    return [*(one.detach() for one in results), gradient]

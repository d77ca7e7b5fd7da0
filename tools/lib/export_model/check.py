# SPDX-License-Identifier: MIT
"""Whether the exported programs do what the module does: output, loss, every gradient, every buffer, at another batch size."""

import inspect

import torch
from ddprun import UserError
from export_model.inputs import examples
from export_model.programs import quiet, source_file

BATCH = 3  # not that of the export: a size that became a constant shows
SEED = 7
TOLERANCE = 1e-5  # of the largest number; PyTorch has another kernel for some modules where it runs them eagerly


def check_programs(module, programs, inputs):
    """Raises UserError for what would train differently. Weights and buffers are as before."""
    refuse_own_gradients(module, inputs)
    for program, training in zip(programs, (True, False), strict=True):
        with quiet():
            exported = program.module()
        start = {name: value.clone() for name, value in exported.state_dict().items()}
        compare(
            outcome(module.train(training), start, inputs, training),
            outcome(exported, start, inputs, training),
            "training" if training else "evaluation",
        )
    module.train()


def outcome(module, start, inputs, training):
    """What one step from this state leaves, by name."""
    torch.manual_seed(SEED)
    given = examples(inputs, BATCH, SEED)
    put_back(module, start)
    try:
        with torch.set_grad_enabled(training):
            output = module(**given)
        found = {"the output": output.detach()}
        if training:
            found |= gradients_of(module, output)
        return found | {f"buffer {name}": value.clone() for name, value in module.named_buffers() if name in start}
    except UserError:
        raise
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(f"with a batch of {BATCH}: {type(error).__name__}: {first}") from error
    finally:
        put_back(module, start)


def put_back(module, state):
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if name in state:
                tensor.copy_(state[name])


def gradients_of(module, output):
    """Of a loss that weighs each number of the output differently."""
    generator = torch.Generator().manual_seed(SEED)
    loss = (output * torch.randn(output.shape, generator=generator)).sum()
    parameters = {name: value for name, value in module.named_parameters() if value.requires_grad}
    if not parameters:
        raise UserError("the module has no parameters to train")
    if not loss.requires_grad:
        raise UserError("the output depends on no parameter: is there a detach() or no_grad() in forward()?")
    gradients = torch.autograd.grad(loss, parameters.values(), allow_unused=True)
    found = {"the loss": loss.detach()}
    return found | {f"the gradient of {name}": one for name, one in zip(parameters, gradients, strict=True)}


def compare(expected, found, mode):
    for what, value in expected.items():
        if what not in found:
            raise UserError(f"in {mode}, {what} is not there in the exported program")
        other = found[what]
        if (value is None) != (other is None):
            raise UserError(f"in {mode}, {what} is there {'only' if other is None else 'not'} in the module, unlike the exported program")
        if value is None or torch.equal(value, other):
            continue
        difference = (value.double() - other.double()).abs().max().item()
        if difference > TOLERANCE * max(1.0, value.double().abs().max().item()):
            raise UserError(f"in {mode}, {what} is another in the exported program than in the module: they differ by {difference:.3g}")


def refuse_own_gradients(module, inputs):
    """torch.export traces what torch.autograd.Function computes, and leaves its backward out."""
    module.train()
    given = examples(inputs, BATCH, SEED)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    output = module(**given)
    put_back(module, before)
    pending, seen = [output.grad_fn], set()
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        made_by = getattr(type(node), "_forward_cls", None)
        if made_by is not None and not made_by.__module__.startswith("torch."):
            raise UserError(
                f"{place_of(made_by)}: {made_by.__name__} is a torch.autograd.Function: the exported program would lose its "
                "backward() and train differently; write it with torch's own operations"
            )
        pending += [one for one, _ in node.next_functions]


def place_of(cls):
    try:
        return f"{source_file(cls)}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        return cls.__module__

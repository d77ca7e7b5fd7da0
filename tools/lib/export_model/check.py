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


def check_programs(module, programs, inputs, modes=(True, False)):
    """Raises UserError for what would train differently. `programs` are those of the `modes`, True for training. Weights and buffers are
    as before."""
    if True in modes:
        refuse_own_gradients(module, inputs)
    for program, training in zip(programs, modes, strict=True):
        module.train(training)
        start = {name: value.clone() for name, value in module.state_dict().items()}
        expected = outcome(module, dict(module.named_parameters()), module.named_buffers, inputs, training)
        put_back(module, start)
        traced = Traced(program)  # over copies: a hook on the module's own weights is not there
        found = outcome(traced, traced.parameters, traced.tensors.items, inputs, training)
        compare({name: value for name, value in expected.items() if name in found or not name.startswith("buffer ")}, found,
                "training" if training else "evaluation")
    module.train()


class Traced:
    """An exported program as a function, over copies of its tensors."""

    def __init__(self, program):
        copies = {}
        self.program, self.tensors = program, {}
        for name, value in {**program.constants, **program.state_dict}.items():
            if isinstance(value, torch.Tensor):  # tied ones stay one
                copy = copies.setdefault(id(value), value.detach().clone().requires_grad_(value.requires_grad))
                self.tensors[name] = copy
        self.parameters = {name: self.tensors[name] for name in program.state_dict if program.state_dict[name].requires_grad}

    def __call__(self, **given):
        values = [given[name] for name in self.program.call_spec.in_spec.children()[1].context]
        signature = self.program.graph_signature
        arguments = [values.pop(0) if one.target is None else self.tensors.get(one.target) for one in signature.input_specs]
        results = torch.fx.Interpreter(self.program.graph_module).run(*arguments)
        outputs = []
        for spec, value in zip(signature.output_specs, results, strict=True):
            if spec.target is None:
                outputs.append(value)
            else:
                self.tensors[spec.target].copy_(value)
        return tuple(outputs)


def outcome(call, parameters, buffers, inputs, training):
    """What one step leaves, by name. `buffers` gives them after it: a call may assign others."""
    torch.manual_seed(SEED)
    try:
        with torch.set_grad_enabled(training), quiet():
            outputs = several(call(**examples(inputs, BATCH, SEED)))
        found = {f"the output {i}" if i > 0 else "the output": one.detach() for i, one in enumerate(outputs)}
        if training:
            found |= gradients_of(outputs[0], parameters)
        return found | {f"buffer {name}": value.detach().clone() for name, value in buffers()}
    except UserError:
        raise
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(f"with a batch of {BATCH}: {type(error).__name__}: {first}") from error


def several(output):
    return output if isinstance(output, tuple) else (output,)


def put_back(module, state):
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if name in state:
                tensor.copy_(state[name])


def gradients_of(output, parameters):
    """Of a loss that weighs each number of the output differently."""
    generator = torch.Generator().manual_seed(SEED)
    loss = (output * torch.randn(output.shape, generator=generator)).sum()
    trained = {name: value for name, value in parameters.items() if value.requires_grad}
    if not trained:
        raise UserError("the module has no parameters to train")
    if not loss.requires_grad:
        raise UserError("the output depends on no parameter: is there a detach() or no_grad() in forward()?")
    with quiet():
        loss.backward()
    found = {"the loss": loss.detach()}
    for name, value in trained.items():
        found[f"the gradient of {name}"], value.grad = value.grad, None
        if found[f"the gradient of {name}"] is not None and found[f"the gradient of {name}"].layout != torch.strided:
            raise UserError(f"the gradient of {name} is sparse, and the optimizers of ddprun take dense ones: make the layer with sparse=False")
    return found


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
            hint = "; is there a hook on gradients, or on what is saved for them?" if what.startswith("the gradient") else ""
            raise UserError(f"in {mode}, {what} is another in the exported program than in the module: they differ by {difference:.3g}{hint}")


def refuse_own_gradients(module, inputs):
    """torch.export traces what torch.autograd.Function computes, and leaves its backward out."""
    module.train()
    given = examples(inputs, BATCH, SEED)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    output, *_ = several(module(**given))
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

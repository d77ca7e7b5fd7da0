# SPDX-License-Identifier: MIT
"""The module as two programs over one set of weights, for training and for evaluation, as torch.export traces them."""

import contextlib
import inspect
import io
import logging
import pathlib
import re
import sysconfig
import warnings

import torch
from ddprun import UserError
from export_model.inputs import examples

BATCH = 4  # of the example; 1 would be taken for a constant
BLOCKS = ("cond", "wrap_with_set_grad_enabled", "wrap_with_autocast")  # that the model plugin `exported` knows
REASONS = {  # what torch.export says, and what that means
    r"^aten\.[\w.]+$": "torch.export has no rule for the sizes of this operator's result",
    r"fake tensor in the exported program constant's list": "does forward() call torch.autograd.grad() or backward()? Gradients within it "
    "cannot be traced",
    r"FlexAttention": "torch.nn.functional.scaled_dot_product_attention with attn_mask can be exported",
    r"torch\._C\.Generator": "random numbers are torch's own alone: without generator=",
    r"must be tuple of ints, ?but got FakeTensor": "packed sequences have sizes that depend on values: give padded ones, and a mask",
    r"data-dependent|GuardOnDataDependent": "what is done depends on the values of a tensor: torch.where or torch.cond can replace the `if`",
    r"specialized|ConstraintViolation|Constraints violated": "the batch's size must be free: x.size(0), x.flatten(1) and -1 in a view keep it so",
}


def export_programs(module, inputs, modes=(True, False)):
    """[for training, for evaluation], or those of the `modes`, True for training."""
    programs = []
    for training in modes:
        module.train(training)
        programs.append(export_program(module, inputs))
    module.train()
    for program in programs:
        refuse_foreign_operators(program)
    return programs


def export_program(module, inputs):
    given = examples(inputs, BATCH, seed=0)
    shapes = {one.name: one.dynamic() for one in inputs}
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    attributes = {part: (set(vars(part)), set(part._forward_hooks)) for part in module.modules()}
    try:
        with quiet(), contextlib.redirect_stderr(io.StringIO()):  # it writes whole graphs there
            return torch.export.export(module, (), given, dynamic_shapes=shapes)
    except UserError:
        raise
    except Exception as error:
        raise UserError(explained(error, module, inputs)) from error
    finally:
        with torch.no_grad():
            for name, tensor in module.state_dict().items():
                tensor.copy_(before[name])
        for part, (names, hooks) in attributes.items():
            for name in set(vars(part)) - names:
                delattr(part, name)  # they hold tensors of the tracer, without numbers
            for hook in set(part._forward_hooks) - hooks:
                del part._forward_hooks[hook]


def explained(error, module, inputs):
    """Which line of the module torch.export cannot trace, and why: its own message is a page."""
    text = str(error)
    place = user_line(error, module) or named_line(text)
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    if first.startswith("Constraints violated"):
        first = "the size of the batch becomes a constant"
        place = place or line_that_fails(module, inputs)
    whole = f"{type(error).__name__} {text}"
    advice = next((reason for pattern, reason in REASONS.items() if re.search(pattern, first) or re.search(pattern, whole)), "")
    advice = f"; {advice}" if advice else ""
    return f"{place or type(module).__name__}: torch.export: {first}{advice}"


def line_that_fails(module, inputs):
    """Where the module itself stops at another batch size: torch.export does not say which line fixes it."""
    try:
        module(**examples(inputs, BATCH - 1, seed=0))
    except Exception as error:
        return user_line(error, module)
    return None


def user_line(error, module):
    files = {source_file(type(one)) for one in module.modules()} - {None}
    found = None
    trace = error.__traceback__
    while trace:
        file = trace.tb_frame.f_code.co_filename
        if not is_torch(file) and (file in files or is_ones_own(file)):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def named_line(text):
    found = re.search(r'File "([^"]+)", line (\d+)', text)
    return f"{found[1]}:{found[2]}" if found and not is_torch(found[1]) else None


def source_file(cls):
    with contextlib.suppress(TypeError, OSError):
        return inspect.getsourcefile(cls)
    return None


def is_torch(file):
    return pathlib.Path(torch.__file__).parent in pathlib.Path(file).parents


def is_ones_own(file):
    """Whether it is neither Python's nor a package's nor of this tool: a function's, such as a loss, which is no module's."""
    paths = sysconfig.get_paths()
    others = [*(paths[name] for name in ("stdlib", "purelib", "platlib")), pathlib.Path(__file__).parent]
    return pathlib.Path(file).is_file() and not any(pathlib.Path(other) in pathlib.Path(file).parents for other in others)


def line_of(node):
    """The line of the user's code that made a node: my_net.py:12."""
    trace = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    own = [(file, line) for file, line in trace if not is_torch(file)] or trace
    return f"{own[-1][0]}:{own[-1][1]}" if own else "its place is unknown"


def refuse_foreign_operators(program):
    for graph in graphs(program.graph_module):
        for node in graph.nodes:
            operator, problem = node.target, None
            if isinstance(operator, torch._ops.OpOverload) and operator.namespace != "aten":
                problem = f"operator {operator.name()} is made by a Python package, and is"
            elif isinstance(operator, torch._ops.HigherOrderOperator) and operator.name() not in BLOCKS:
                problem = f"the control flow {operator.name()} of torch is"
            elif inspect.isfunction(operator) and operator.__module__.startswith("torch._functorch"):
                problem = "torch.func (vmap, grad ...) is made of Python, and is"
            if problem:
                raise UserError(
                    f"{line_of(node)}: {problem} not in LibTorch, which trains without Python; expected operators of torch itself"
                )


def graphs(module):
    return [one.graph for one in module.modules() if isinstance(one, torch.fx.GraphModule)]


@contextlib.contextmanager
def quiet():
    """torch.export warns of its own work; what it cannot do is an exception."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def ctc_sizes(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    """Of the losses and of what their gradients need, which torch.export does not know. No value is computed here."""
    longest = targets.size(-1)  # one target after the other in 1-D ones, so that this is enough
    samples = log_probs.size(1)
    return log_probs.new_empty((samples,)), log_probs.new_empty((samples, log_probs.size(0), 2 * longest + 1))


torch.library.register_fake("aten::_ctc_loss.Tensor", ctc_sizes, allow_override=True)

# SPDX-License-Identifier: MIT
"""tools/export_model refuses by name what its program would not do as the module does, and takes what only looks unusual."""

import pathlib
import sys
import tempfile
import unittest

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from export_tool import ExportTool  # noqa: E402

NETS = '''
import collections, functools, itertools, logging, random, types, warnings
import torch
from torch import nn

CALLS = 0
LOG = logging.getLogger("nets")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.made()

    def made(self):
        pass

    def before(self):
        pass

    def factor(self, x):
        return 1

    def forward(self, x):
        self.before()
        return self.fc(x) * self.factor(x)


def net(**methods):
    """A Net with these methods."""
    return type("Net", (Net,), methods)()


def keeps(value, change):
    """A Net with a value, which each call changes."""
    return net(made=lambda self: setattr(self, "kept", value()), before=change)


class OwnIterator:
    steps = 0

    def __next__(self):
        self.steps += 1

    def __iter__(self):
        return self


def assign(value):
    return lambda self: setattr(self, "kept", value(self.kept))


# {name: (the first value, what changes it)}
KEPT = {
    "Number": (lambda: 0, assign(lambda kept: kept + 1)),
    "Truth": (lambda: False, assign(lambda kept: True)),
    "Text": (lambda: "a", assign(lambda kept: kept + "a")),
    "List": (lambda: [0], lambda self: self.kept.append(1)),
    "Tuple": (lambda: (1,), assign(lambda kept: (*kept, 1))),
    "Set": (lambda: {0}, lambda self: self.kept.add(len(self.kept))),
    "Dictionary": (lambda: {"steps": 0}, lambda self: self.kept.update(steps=self.kept["steps"] + 1)),
    "Deque": (lambda: collections.deque(maxlen=2), lambda self: self.kept.append(1.5)),
    "Iterator": (itertools.count, lambda self: next(self.kept)),
    "ListIterator": (lambda: iter([1.0] * 1000), lambda self: next(self.kept)),
    "GeneratorFunction": (lambda: (step for step in range(1000)), lambda self: next(self.kept)),
    "IteratorOfOnesOwn": (OwnIterator, lambda self: next(self.kept)),
    "Object": (lambda: types.SimpleNamespace(inner=types.SimpleNamespace(steps=0)),
               lambda self: vars(self.kept.inner).update(steps=self.kept.inner.steps + 1)),
    "Tensor": (lambda: torch.zeros(()), lambda self: self.kept.add_(1)),
    "Tensors": (lambda: [torch.zeros(())], lambda self: self.kept[0].add_(1)),
    "Generator": (lambda: random.Random(1), lambda self: self.kept.random()),
    "TorchGenerator": (torch.Generator, lambda self: torch.rand(1, generator=self.kept)),
    "FromNothing": (lambda: None, assign(lambda kept: (kept or 0) + 1)),
    "CountsFromNone": (lambda: types.SimpleNamespace(steps=None), lambda self: setattr(self.kept, "steps", (self.kept.steps or 0) + 1)),
}


def backward_hooks(self):
    self.fc.register_full_backward_hook(lambda module, before, after: None)
    self.fc.weight.register_hook(lambda gradient: gradient / 2)


def node_hook(self):
    self.node = self.fc.weight.view_as(self.fc.weight).grad_fn.next_functions[0][0]
    self.node.register_prehook(lambda gradients: (gradients[0] / 2,))


def activation_hook(self, x):
    result = self.fc(x)
    if result.requires_grad:
        result.register_hook(lambda gradient: gradient * 2)
    return result


def of_the_first_samples(self, x):
    if self.scale is None:
        self.scale = x.std().detach()
    return self.scale


def count_of_the_class(self):
    NETWORKS["OfTheClass"].steps += 1


def count_of_the_file(self):
    global CALLS
    CALLS += 1


def forward_hook(self):
    counts = [0]

    def hook(module, given, result):
        counts[0] += 1

    self.fc.register_forward_hook(hook)


def inner_gradient(self, x):
    with torch.enable_grad():
        x = x.requires_grad_()
        return torch.autograd.grad(self.fc(x).sum(), x, create_graph=True)[0]


def flex(self, x):
    from torch.nn.attention.flex_attention import flex_attention
    q = self.fc(x)[:, None, None]
    return flex_attention(q, q, q)[:, 0, 0]


def cached(self, x):
    """By what depends on sizes alone."""
    if self.mask is None:
        self.mask = torch.arange(4.0)
    if not hasattr(self, "more"):
        self.more = torch.ones(4)
    return self.by_size.setdefault(x.shape[1], torch.full((4,), 2.0)) + self.mask + self.more


def decided(self, x):
    """Once, by what the first call is given, as transformers' configurations do."""
    if self.config.kind is None:
        self.config.kind = "narrow" if x.shape[1] < 10 else "wide"
    return 2 if self.config.kind == "narrow" else 3


def hook_at_first(self):
    """The first call registers one that is called from then on, and only once."""
    if not hasattr(self, "hooked"):
        self.hooked = True
        self.fc.register_forward_hook(lambda module, given, output: output * 2)


def written(self, x):
    """Each call sets these before it reads them."""
    self.width, self.last = x.shape[1], x
    return self.width + self.last.mean()


def norm_in_evaluation(self):
    self.norm = nn.BatchNorm1d(8)
    self.norm.eval()


def train_without_norm(self, mode=True):
    nn.Module.train(self, mode)
    self.norm.eval()
    return self


def traced_part(self):
    warnings.simplefilter("ignore", DeprecationWarning)
    self.fc = torch.jit.trace(self.fc, torch.zeros(2, 8))


# {name: the methods and values of a Net}
NETWORKS = {
    "ParameterHook": {"made": lambda self: self.fc.weight.register_hook(lambda gradient: gradient / 2)},
    "AccumulatedHook": {"made": lambda self: self.fc.bias.register_post_accumulate_grad_hook(lambda bias: bias.grad.clamp_(-1, 1))},
    "BackwardHooks": {"made": backward_hooks},
    "BackwardPreHook": {"made": lambda self: self.register_full_backward_pre_hook(lambda module, gradients: None)},
    "NodeHook": {"made": node_hook},
    "ActivationHook": {"forward": activation_hook},
    "OfTheFirstSamples": {"scale": None, "factor": of_the_first_samples},
    "InEvaluation": {"steps": 0, "before": lambda self: setattr(self, "steps", self.steps + (not self.training))},
    "OfTheClass": {"steps": 0, "before": count_of_the_class},
    "Global": {"before": count_of_the_file},
    "ForwardHook": {"made": forward_hook},
    "RandomBranch": {"factor": lambda self, x: 2 if random.random() < 1e-9 else 1},
    "Freezes": {"before": lambda self: self.fc.bias.requires_grad_(False)},
    "EndsTraining": {"before": lambda self: self.eval()},
    "Transient": {"made": lambda self: self.register_buffer("steps", torch.zeros(()), persistent=False),
                  "before": lambda self: self.steps.add_(1)},
    "FrozenPart": {"made": lambda self: self.fc.eval()},
    "Inner": {"forward": inner_gradient},
    "Flex": {"forward": flex},
    "NoNames": {"forward": lambda self, *args: self.fc(args[0])},
    "Unmade": {"made": lambda self: setattr(self, "spare", nn.UninitializedParameter())},
    "TracedPart": {"made": traced_part},
    "Detections": {"forward": lambda self, x: [{"boxes": self.fc(x)}]},
    "Outputs": {"forward": lambda self, x: (self.fc(x), x)},
    "Index": {"forward": lambda self, x, index: self.fc(x) * index[:, None]},
    # What works
    "Cache": {"made": lambda self: vars(self).update(by_size={}, mask=None), "factor": cached},
    "Decides": {"made": lambda self: setattr(self, "config", types.SimpleNamespace(kind=None, width=8)), "factor": decided},
    "HooksAtFirst": {"before": hook_at_first},
    "Writes": {"factor": written},
    "Logs": {"before": lambda self: LOG.debug("a logger remembers what it does not print")},
    "OwnMode": {"made": norm_in_evaluation, "train": train_without_norm, "before": lambda self: self.norm(torch.ones(2, 8))},
    "Narrow": {"made": lambda self: self.bfloat16(), "forward": lambda self, x: self.fc(x.bfloat16()).float()},
    "Time": {"forward": lambda self, x, t: self.fc(x) * t[:, None]},
}
NETWORKS = {name: type(name, (Net,), methods) for name, methods in NETWORKS.items()}
globals().update(NETWORKS)
globals().update({name: functools.partial(keeps, *row) for name, row in KEPT.items()})


def Closure():
    steps = 0

    class Counts(Net):
        def before(self):
            nonlocal steps
            steps += 1

    return Counts()


class Calls(nn.Module):
    """A module in another one, whatever its arguments."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, *args, **kwargs):
        return self.part(*args, **kwargs)


def Nested():
    return Calls(nn.Sequential(keeps(*KEPT["Number"]), nn.Linear(4, 4)))


def Wrapper():
    return Calls(Net())


def Twice():
    return Calls(Calls(Net()))


class Square(torch.autograd.Function):
    @staticmethod
    def forward(context, value):
        return value * value

    @staticmethod
    def backward(context, gradient):
        return gradient


class OwnGradient(Net):
    def forward(self, x):
        return Square.apply(self.fc(x))


class Fixed(Net):
    def forward(self, x):
        return self.fc(x.reshape(4, 8))


class Branches(Net):
    def forward(self, x):
        result = self.fc(x)
        if result.sum() > 0:
            return result
        return -result


class Vmap(Net):
    def forward(self, x):
        return torch.func.vmap(self.fc)(x)


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 4, dtype=torch.complex64))

    def forward(self, x):
        return (x.to(torch.complex64) @ self.weight).abs()


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(8, 4, sparse=True)

    def forward(self, x):
        return self.bag((x > 0).long())


class Names(nn.Module):
    def __init__(self):
        super().__init__()
        self.code, self.forward_ = nn.Linear(8, 4), None
        self.register_buffer("graph", torch.ones(8))

    def forward(self, x):
        return self.code(x * self.graph)


def Lazy():
    return nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())


def Parallel():
    return nn.DataParallel(Net())


def Compiled():
    return torch.compile(nn.DataParallel(Net()))


def Scripted():
    warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit itself
    return torch.jit.script(nn.Linear(8, 4))
'''


class ExportModel(ExportTool, unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.nets = self.written_module("nets", NETS)

    def export(self, name, *words, code=0):
        """Returns what the tool says."""
        said = self.run_export(f"nets.py:{name}", "--input", "8", *words, "--out", "net.pt2", code=code)
        self.assertEqual(pathlib.Path("net.pt2").exists(), code == 0)
        return said

    def test_hooks_on_gradients_are_refused_one_by_one(self):
        self.assert_each_refused({
            "ParameterHook": "without them: the parameter fc.weight; remove them",
            "AccumulatedHook": "without them: the parameter fc.bias; remove them",
            "BackwardHooks": "the parameter fc.weight, the backward of fc (Linear); remove them",
            "BackwardPreHook": "the backward of the module (BackwardPreHook)",
            "NodeHook": "the gradient of fc.weight is another in the exported program than in the module",
            "ActivationHook": ["the gradient of fc.weight is another", "is there a hook on gradients"],
        })  # fmt: skip

    def test_what_calls_change_is_refused_by_name(self):
        self.assert_each_refused({name: "forward() changes kept" for name in self.nets.KEPT} | {
            "OfTheFirstSamples": "forward() changes scale in training",
            "InEvaluation": "forward() changes steps in evaluation",
            "OfTheClass": "forward() changes OfTheClass.steps in training",
            "Global": "forward() changes the global CALLS in training",
            "Closure": "forward() changes Counts.before in training",
            "Nested": "forward() changes part.0.kept in training",
            "ForwardHook": "forward() changes what a forward hook of fc keeps in training",
            "RandomBranch": "forward() changes the numbers of Python's random in training",
            "Freezes": "forward() changes requires_grad of fc.bias in training",
            "EndsTraining": "forward() changes the mode (training or evaluation) of",
            "Transient": "forward() changes the buffer steps (not persistent",
        })  # fmt: skip

    def test_what_would_be_lost_or_cannot_be_traced_is_refused_with_the_reason(self):
        self.assert_each_refused({
            "FrozenPart": "fc: in evaluation mode as it was made, and module.train() ends that",
            "Complex": "weight is a tensor of complex64, which no checkpoint of ddprun holds",
            "Bag": "the gradient of bag.weight is sparse",
            "OwnGradient": ["nets.py:", "Square is a torch.autograd.Function"],
            "Fixed": ["nets.py:", "size of the batch"],
            "Branches": ["nets.py:", "torch.cond"],
            "Nett": ["no class or function Nett", "Net"],
            "Vmap": ["nets.py:", "torch.func (vmap, grad ...) is made of Python"],
            "Inner": "torch.autograd.grad",
            "Flex": ["FlexAttention", "scaled_dot_product_attention with attn_mask can be exported"],
            "NoNames": "forward() of NoNames names no arguments",
            "Unmade": "spare: a call of the module does not make these weights",
            "Scripted": "nets.py:Scripted: the module is TorchScript, which cannot be traced; export the module in Python",
            "TracedPart": "its module fc is TorchScript",
            "Detections": "forward() gives a list without a tensor at its top: expected a tensor, or a tuple or a dictionary of tensors",
            "Outputs": "forward() gives 0, 1: which of them is trained on is not clear; --output NAME chooses one",
        })  # fmt: skip
        self.assertIn("no such file", self.run_export("none.py:Net", "--input", "8", "--out", "net.pt2", code=2))
        self.assertIn("a batch has a tensor index of its own", self.export("Index", "--input", "index=", code=2))

    def test_what_only_looks_unusual_is_exported(self):
        for name in ("Names", "Lazy", "Wrapper", "Twice", "Cache", "Decides", "HooksAtFirst", "Writes", "Logs", "OwnMode"):
            with self.subTest(name):
                self.assertIn("checked against the module", self.export(name))
                pathlib.Path("net.pt2").unlink()
        self.assertIn("checked", self.export("Time", "--input", "t=:int64:7"))

    def test_what_is_done_otherwise_than_in_python_is_reported(self):
        self.assertIn("DataParallel is taken off: weights have the names of the module in it", self.export("Parallel"))
        said = self.export("Compiled")
        self.assertRegex(said, "OptimizedModule is taken off.*\nDataParallel is taken off")
        self.assertEqual(set(torch.export.load("net.pt2").state_dict), {"fc.weight", "fc.bias"})
        self.assertIn("its weights are bfloat16: ddprun computes their steps in float32", self.export("Narrow"))


if __name__ == "__main__":
    unittest.main()

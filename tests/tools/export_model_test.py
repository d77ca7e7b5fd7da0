# SPDX-License-Identifier: MIT
"""tools/export_model refuses by name what its program would not do as the module does, and takes what only looks unusual."""

import os
import pathlib
import sys
import tempfile
import unittest

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from export_tool import ExportTool  # noqa: E402

NETS = '''
import collections, itertools, logging, random, types, warnings
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
    return net(made=lambda self: setattr(self, "kept", value), before=change)


def ParameterHook():
    return net(made=lambda self: self.fc.weight.register_hook(lambda gradient: gradient / 2))


def AccumulatedHook():
    return net(made=lambda self: self.fc.bias.register_post_accumulate_grad_hook(lambda parameter: parameter.grad.clamp_(-1, 1)))


def BackwardHooks():
    def made(self):
        self.fc.register_full_backward_hook(lambda module, before, after: None)
        self.fc.weight.register_hook(lambda gradient: gradient / 2)
    return net(made=made)


def BackwardPreHook():
    return net(made=lambda self: self.register_full_backward_pre_hook(lambda module, gradients: None))


def NodeHook():
    def made(self):
        self.node = self.fc.weight.view_as(self.fc.weight).grad_fn.next_functions[0][0]
        self.node.register_prehook(lambda gradients: (gradients[0] / 2,))
    return net(made=made)


class ActivationHook(Net):
    def forward(self, x):
        result = self.fc(x)
        if result.requires_grad:
            result.register_hook(lambda gradient: gradient * 2)
        return result


def Number():
    return keeps(0, lambda self: setattr(self, "kept", self.kept + 1))


def Truth():
    return keeps(False, lambda self: setattr(self, "kept", self.kept or True))


def Text():
    return keeps("a", lambda self: setattr(self, "kept", self.kept + "a"))


def List():
    return keeps([0], lambda self: self.kept.append(1))


def Tuple():
    return keeps((1,), lambda self: setattr(self, "kept", (*self.kept, 1)))


def Set():
    return keeps({0}, lambda self: self.kept.add(len(self.kept)))


def Dictionary():
    return keeps({"steps": 0}, lambda self: self.kept.update(steps=self.kept["steps"] + 1))


def Deque():
    return keeps(collections.deque(maxlen=2), lambda self: self.kept.append(1.5))


def Iterator():
    return keeps(itertools.count(), lambda self: next(self.kept))


def ListIterator():
    return keeps(iter([1.0] * 1000), lambda self: next(self.kept))


def GeneratorFunction():
    return keeps((step for step in range(1000)), lambda self: next(self.kept))


class OwnIterator:
    steps = 0

    def __next__(self):
        self.steps += 1

    def __iter__(self):
        return self


def IteratorOfOnesOwn():
    return keeps(OwnIterator(), lambda self: next(self.kept))


def Object():
    return keeps(types.SimpleNamespace(inner=types.SimpleNamespace(steps=0)), lambda self: vars(self.kept.inner).update(steps=self.kept.inner.steps + 1))


def Tensor():
    return keeps(torch.zeros(()), lambda self: self.kept.add_(1))


def Tensors():
    return keeps([torch.zeros(())], lambda self: self.kept[0].add_(1))


def Generator():
    return keeps(random.Random(1), lambda self: self.kept.random())


def TorchGenerator():
    return keeps(torch.Generator(), lambda self: torch.rand(1, generator=self.kept))


def FromNothing():
    return keeps(None, lambda self: setattr(self, "kept", (self.kept or 0) + 1))


class OfTheFirstSamples(Net):
    scale = None

    def factor(self, x):
        if self.scale is None:
            self.scale = x.std().detach()
        return self.scale


class InEvaluation(Net):
    steps = 0

    def before(self):
        self.steps += not self.training


class OfTheClass(Net):
    steps = 0

    def before(self):
        OfTheClass.steps += 1


class Global(Net):
    def before(self):
        global CALLS
        CALLS += 1


def Closure():
    steps = 0

    class Counts(Net):
        def before(self):
            nonlocal steps
            steps += 1

    return Counts()


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = nn.Sequential(Number(), nn.Linear(4, 4))

    def forward(self, x):
        return self.part(x)


def ForwardHook():
    counts = [0]

    def hook(module, given, result):
        counts[0] += 1

    return net(made=lambda self: self.fc.register_forward_hook(hook))


def RandomBranch():
    return net(factor=lambda self, x: 2 if random.random() < 1e-9 else 1)


def Freezes():
    return net(before=lambda self: self.fc.bias.requires_grad_(False))


def EndsTraining():
    return net(before=lambda self: self.eval())


def Transient():
    return net(made=lambda self: self.register_buffer("steps", torch.zeros(()), persistent=False), before=lambda self: self.steps.add_(1))


def FrozenPart():
    return net(made=lambda self: self.fc.eval())


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


class Vmap(Net):
    def forward(self, x):
        return torch.func.vmap(self.fc)(x)


class Inner(Net):
    def forward(self, x):
        with torch.enable_grad():
            x = x.requires_grad_()
            return torch.autograd.grad(self.fc(x).sum(), x, create_graph=True)[0]


class Flex(Net):
    def forward(self, x):
        from torch.nn.attention.flex_attention import flex_attention
        q = self.fc(x)[:, None, None]
        return flex_attention(q, q, q)[:, 0, 0]


class NoNames(Net):
    def forward(self, *args):
        return self.fc(args[0])


class Unmade(Net):
    def made(self):
        self.spare = nn.UninitializedParameter()


# What works

class Names(nn.Module):
    def __init__(self):
        super().__init__()
        self.code, self.forward_ = nn.Linear(8, 4), None
        self.register_buffer("graph", torch.ones(8))

    def forward(self, x):
        return self.code(x * self.graph)


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())

    def forward(self, x):
        return self.layers(x)


class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential()
        self.model = Net()

    def forward(self, *args, **kwargs):
        return self.model(*args, **kwargs)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.base_model = Wrapper()

    def forward(self, *args, **kwargs):
        return self.base_model(*args, **kwargs)


def Parallel():
    return nn.DataParallel(Net())


def Compiled():
    return torch.compile(nn.DataParallel(Net()))


class Cache(Net):
    """Of what depends on sizes alone."""

    def __init__(self):
        super().__init__()
        self.by_size, self.mask = {}, None

    def factor(self, x):
        if self.mask is None:
            self.mask = torch.arange(4.0)
        if not hasattr(self, "more"):
            self.more = torch.ones(4)
        return self.by_size.setdefault(x.shape[1], torch.full((4,), 2.0)) + self.mask + self.more


class Decides(Net):
    """Once, by what the first call is given, as transformers' configurations do."""

    def made(self):
        self.config = types.SimpleNamespace(kind=None, width=8)

    def factor(self, x):
        if self.config.kind is None:
            self.config.kind = "narrow" if x.shape[1] < 10 else "wide"
        return 2 if self.config.kind == "narrow" else 3


def CountsFromNone():
    return net(made=lambda self: setattr(self, "kept", types.SimpleNamespace(steps=None)),
               before=lambda self: setattr(self.kept, "steps", (self.kept.steps or 0) + 1))


class HooksAtFirst(Net):
    """The first call registers one that is called from then on, and only once."""

    def before(self):
        if not hasattr(self, "hooked"):
            self.hooked = True
            self.fc.register_forward_hook(lambda module, given, output: output * 2)


class Writes(Net):
    """Each call sets these before it reads them."""

    def factor(self, x):
        self.width, self.last = x.shape[1], x
        return self.width + self.last.mean()


class Logs(Net):
    def before(self):
        LOG.debug("a logger remembers what it is not to tell")


class OwnMode(Net):
    def made(self):
        self.norm = nn.BatchNorm1d(8)
        self.norm.eval()

    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        return self

    def before(self):
        self.norm(torch.ones(2, 8))


class Narrow(Net):
    def made(self):
        self.bfloat16()

    def forward(self, x):
        return self.fc(x.bfloat16()).float()


class Time(Net):
    def forward(self, x, t):
        return self.fc(x) * t[:, None]


class Index(Net):
    def forward(self, x, index):
        return self.fc(x) * index[:, None]


def Scripted():
    warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit itself
    return torch.jit.script(nn.Linear(8, 4))


class TracedPart(Net):
    def made(self):
        warnings.simplefilter("ignore", DeprecationWarning)
        self.fc = torch.jit.trace(self.fc, torch.zeros(2, 8))


class Detections(Net):
    def forward(self, x):
        return [{"boxes": self.fc(x)}]


class Outputs(Net):
    def forward(self, x):
        return self.fc(x), x
'''


class ExportModel(ExportTool, unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        pathlib.Path("nets.py").write_text(NETS)

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
            "BackwardPreHook": "the backward of the module (Net)",
            "NodeHook": "the gradient of fc.weight is another in the exported program than in the module",
            "ActivationHook": ["the gradient of fc.weight is another", "is there a hook on gradients"],
        })  # fmt: skip

    def test_what_calls_change_is_refused_by_name(self):
        kept = ["Number", "Truth", "Text", "List", "Tuple", "Set", "Dictionary", "Deque", "Iterator", "ListIterator",
                "GeneratorFunction", "IteratorOfOnesOwn", "Object", "Tensor", "Tensors", "Generator", "TorchGenerator", "FromNothing",
                "CountsFromNone"]  # fmt: skip
        self.assert_each_refused({name: "forward() changes kept" for name in kept} | {
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
        self.assertIn("a batch has a tensor index of its own", self.export("Index", "--input", "index=", code=2))

    def test_what_only_looks_unusual_is_exported(self):
        for name in ("Names", "Lazy", "Wrapper", "Twice", "Cache", "Decides", "HooksAtFirst", "Writes", "Logs", "OwnMode"):
            with self.subTest(name):
                self.assertIn("checked against the module", self.export(name))
                pathlib.Path("net.pt2").unlink()
        self.assertIn("checked", self.export("Time", "--input", "t=:int64:7"))

    def test_what_is_done_otherwise_than_in_python_is_told(self):
        self.assertIn("DataParallel is taken off: weights have the names of the module in it", self.export("Parallel"))
        said = self.export("Compiled")
        self.assertRegex(said, "OptimizedModule is taken off.*\nDataParallel is taken off")
        self.assertEqual(set(torch.export.load("net.pt2").state_dict), {"fc.weight", "fc.bias"})
        self.assertIn("its weights are bfloat16: ddprun computes their steps in float32", self.export("Narrow"))


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""What a module does besides its output, which its exported program would not do: hooks on gradients, and what its calls leave
behind in Python. A program has tensors alone; a number in it is the one of the call that was traced."""

import collections
import contextlib
import enum
import functools
import itertools
import logging
import random
import sys
import types
import warnings

import torch
from convert_weights import unreadable
from ddprun import UserError
from export_model.inputs import examples
from export_model.programs import is_torch, quiet, source_file

BATCH, SEED = 3, 11
DEEPEST = 8  # of objects in attributes of objects
PLAIN = (bool, int, float, complex, str, bytes, type(None), enum.Enum)


def check_module(module, inputs):
    """Raises UserError for hooks, and for what calls in training and in evaluation change. The module is as before."""
    refuse_types(module)
    refuse_hooks(module)
    refuse_lost_modes(module)
    caches = {}
    for training in (True, False, True):  # what a call makes, the next one may change
        module.train(training)
        before, after, changed = observed(module, inputs, SEED)
        filled = {owner: before.empties[owner] for owner in changed if owner in before.empties}
        if filled:  # caches, if other samples fill them alike
            call_all(filled.values())
            _, again, _ = observed(module, inputs, SEED + 1)
            alike = {owner: one for owner, one in filled.items() if same_values(after.of(owner), again.of(owner))}
            caches |= alike
            changed = {owner: name for owner, name in changed.items() if owner not in alike}
        if changed:
            raise UserError(
                f"forward() changes {', '.join(changed.values())} in {'training' if training else 'evaluation'}, and the exported program "
                "would keep what the traced call found: buffers (register_buffer) hold numbers that change, torch.rand() draws, and "
                "modes and requires_grad are set before the training"
            )
    call_all(caches.values())
    module.train()


def call_all(functions):
    for one in functions:
        one()


def unset_all(value, names):
    for name in names:
        if getattr(value, name, None) is not None:
            setattr(value, name, None)


def observed(module, inputs, seed):
    """Calls the module. Returns what can be seen before and after, and {owner: name} of what differs."""
    kept = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    with accesses() as written_first:
        before = Snapshot(module)
        call(module, inputs, seed)
        after = Snapshot(module)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if name in kept:
                tensor.copy_(kept[name])
    before.add_missing(after)
    changed = {}
    for path in sorted(before.values.keys() | after.values.keys()):
        owner, title = after.owners.get(path) or before.owners[path]
        if owner not in written_first and not same(before.values.get(path, before), after.values.get(path, after)):
            changed.setdefault(owner, title)
    return before, after, changed


def refuse_types(module):
    for name, tensor in module.state_dict().items():
        if unreadable(tensor):
            raise UserError(f"{name} is {unreadable(tensor)}, which no checkpoint of ddprun holds: keep it as real numbers (torch.view_as_real)")


def refuse_hooks(module):
    found = []
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            found.append(f"the parameter {name}")
    for name, part in module.named_modules():
        if part._backward_hooks or part._backward_pre_hooks:
            found.append(f"the backward of {name or 'the module'} ({type(part).__name__})")
    if torch.nn.modules.module._global_backward_hooks or torch.nn.modules.module._global_backward_pre_hooks:
        found.append("the backward of all modules")
    if found:
        raise UserError(
            f"hooks on gradients are no part of an exported program, which would train without them: {', '.join(found)}; remove "
            "them (trainer.clip_norm clips, pretrained.freeze freezes, requires_grad=False keeps a weight as it is)"
        )


def refuse_lost_modes(module):
    """What the constructor has put into evaluation mode stays in it only if train() leaves it so."""
    if not module.training:
        return
    before = [name for name, part in module.named_modules() if not part.training]
    module.train()
    lost = [name for name, part in module.named_modules() if part.training and name in before]
    if lost:
        raise UserError(
            f"{', '.join(lost[:5])}: in evaluation mode as it was made, and module.train() ends that: a train() of the module's own "
            "that leaves it so (or nothing put into evaluation mode) makes clear how it is trained"
        )


def call(module, inputs, seed):
    before = torch.get_rng_state()
    try:
        with torch.set_grad_enabled(module.training), quiet():
            module(**examples(inputs, BATCH, seed))
    except UserError:
        raise
    except Exception:
        return  # torch.export says what is wrong
    finally:
        torch.set_rng_state(before)


@contextlib.contextmanager
def accesses():
    """Yields the set of (id of a module, attribute) that were written before they were read: what a call sets for itself."""
    seen, written_first = set(), set()
    read, write = torch.nn.Module.__dict__.get("__getattribute__"), torch.nn.Module.__setattr__

    def reading(self, name):
        seen.add((id(self), name))
        return object.__getattribute__(self, name)

    def writing(self, name, value):
        key = (id(self), name)
        if key not in seen:
            written_first.add(key)
        seen.add(key)
        write(self, name, value)

    torch.nn.Module.__getattribute__, torch.nn.Module.__setattr__ = reading, writing
    try:
        yield written_first
    finally:
        torch.nn.Module.__setattr__ = write
        if read is None:
            del torch.nn.Module.__getattribute__
        else:
            torch.nn.Module.__getattribute__ = read


def same(one, other):
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and one.dtype == other.dtype and bool(((one == other) | (one != one) & (other != other)).all())
    return type(one) is type(other) and (repr(one) if isinstance(one, float) else one) == (repr(other) if isinstance(other, float) else other)


def same_values(one, other):
    return one.keys() == other.keys() and all(same(value, other[path]) for path, value in one.items())


def place_of(iterator):
    """What pickle would keep of it: a list's and where in it, say. None where it can keep nothing."""
    with contextlib.suppress(TypeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 is to forget how for some
        return iterator.__reduce__()[1:]
    return None


class Snapshot:
    """Numbers, texts, tensors and containers of such that a call can reach, by path: what no state_dict() holds."""

    def __init__(self, module):
        self.values, self.owners, self.seen = {}, {}, {}
        self.empties = {}  # {owner: what makes it empty again}
        named = [*module.named_modules(), *getattr(module, "hidden_parts", list)()]
        self.parts = [part for _, part in named]
        self.modules = {id(part) for part in self.parts}
        for name, part in named:
            self.add_module(name, part)
        self.add_classes(self.parts)
        self.add_generators()

    def of(self, owner):
        return {path: value for path, value in self.values.items() if self.owners[path][0] == owner}

    def add_missing(self, other):
        """Notes the attributes that the other one has, and this one has not."""
        mine, parts = {owner for owner, _ in self.owners.values()}, {id(part): part for part in self.parts}
        for owner, _ in other.owners.values():
            if owner not in mine and isinstance(owner, tuple):
                self.empties[owner] = functools.partial(delattr, parts[owner[0]], owner[1])

    def add_module(self, name, part):
        for attribute, value in vars(part).items():
            title = f"{name}.{attribute}" if name else attribute
            if attribute == "training":
                self.add(f"{title} mode", f"the mode (training or evaluation) of {name or 'the module'}", title, value)
            elif attribute in ("_forward_hooks", "_forward_pre_hooks"):
                self.add((id(part), attribute), f"what a forward hook of {name or 'the module'} keeps", title, list(value.values()))
                if not value:
                    self.empties[id(part), attribute] = value.clear
            elif attribute not in STANDARD and not isinstance(value, (torch.nn.Parameter, torch.nn.Module)):
                self.add((id(part), attribute), title, title, value)
                if value is None:
                    self.empties[id(part), attribute] = functools.partial(setattr, part, attribute, None)
                elif isinstance(value, (dict, list, set, collections.deque)) and not value:
                    self.empties[id(part), attribute] = value.clear
        for key, parameter in part._parameters.items():
            title = f"{name}.{key}" if name else key
            grad = None if parameter is None else parameter.requires_grad
            self.add(f"{title} requires_grad", f"requires_grad of {title}", f"{title} requires_grad", grad)
        for key in part._non_persistent_buffers_set:
            title = f"{name}.{key}" if name else key
            self.add(f"{title} buffer", f"the buffer {title} (not persistent: no checkpoint has it)", f"{title} buffer", part._buffers.get(key))

    def add_classes(self, parts):
        for cls in {base for part in parts for base in type(part).__mro__ if base is not object}:
            file = source_file(cls)
            if file is None or is_torch(file):
                continue
            for key, value in vars(cls).items():
                if not key.startswith("__"):
                    self.add(f"{cls.__name__}.{key}", f"{cls.__name__}.{key}", f"{cls.__module__}.{cls.__qualname__}.{key}", value)
            if "site-packages" in file or "dist-packages" in file:
                continue
            for key, value in vars(sys.modules.get(cls.__module__, cls)).items():
                if not key.startswith("__") and not isinstance(value, (type, types.ModuleType, types.FunctionType)):
                    self.add(f"the global {key}", f"the global {key}", f"{cls.__module__}:{key}", value)

    def add_generators(self):
        self.add("random", "the numbers of Python's random", "random", random.getstate())
        if "numpy" in sys.modules:
            state = sys.modules["numpy"].random.get_state()
            self.add("numpy", "the numbers of numpy.random", "numpy.random", (state[1].tobytes(), state[2]))

    def add(self, owner, title, path, value, depth=0):
        """Adds a value and what is in it. `owner` is what leads there: (id of a module, attribute), or a name."""
        if isinstance(value, PLAIN):
            self.keep(owner, title, path, value)
        elif isinstance(value, torch.Tensor):
            if not isinstance(value, torch.nn.Parameter) and value.layout == torch.strided:
                self.keep(owner, title, path, value.detach().clone())
        elif isinstance(value, torch.Generator):
            self.keep(owner, title, path, value.get_state())
        elif isinstance(value, random.Random):
            self.keep(owner, title, path, value.getstate())
        elif type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
            self.keep(owner, title, path, value.tobytes())
        elif isinstance(value, logging.Filterer):
            return  # loggers remember whom they answer to, and show it to nobody
        elif id(value) not in self.modules and depth < DEEPEST and id(value) not in self.seen:
            self.seen[id(value)] = value  # alive, so that no other has its id
            if isinstance(owner, tuple):
                self.note_unset(owner, value)
            for key, one in self.inside(value):
                self.add(owner, title, f"{path}.{key}", one, depth + 1)

    def note_unset(self, owner, value):
        """What an object has as None, a first call may decide, as a cache's content: config.problem_type of transformers."""
        unset = [key for key, one in getattr(value, "__dict__", {}).items() if one is None]
        if unset and not isinstance(value, (type, types.ModuleType, types.FunctionType)):
            self.empties[owner] = functools.partial(call_all, [self.empties.get(owner, tuple), functools.partial(unset_all, value, unset)])

    def keep(self, owner, title, path, value):
        self.values[path], self.owners[path] = value, (owner, title)

    def inside(self, value):
        """Yields (name, value) of what a container, an object or a function holds."""
        if isinstance(value, dict):
            yield "keys", len(value)
            yield from ((repr(key)[:80], one) for key, one in list(value.items()))
        elif isinstance(value, (list, tuple, set, frozenset, collections.deque)):
            yield "length", len(value)
            yield from enumerate(itertools.islice(value, 10_000))
        elif isinstance(value, types.MethodType):
            yield "self", value.__self__
            yield "function", value.__func__
        elif isinstance(value, types.FunctionType):
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
                with contextlib.suppress(ValueError):  # an empty one
                    yield name, cell.cell_contents
            yield "defaults", value.__defaults__
        elif hasattr(value, "bit_generator"):  # of numpy
            yield "state", repr(value.bit_generator.state)
        elif isinstance(value, collections.abc.Iterator):
            yield "state", repr(value)
            if getattr(value, "gi_frame", None):  # of a generator
                yield "frame", dict(value.gi_frame.f_locals)
            yield "place", place_of(value)
            yield from getattr(value, "__dict__", {}).items()
        elif hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType, torch.nn.Module)):
            yield from list(vars(value).items())
            for cls in type(value).__mro__:
                yield from ((key, getattr(value, key)) for key in getattr(cls, "__slots__", ()) if hasattr(value, key))


STANDARD = set(vars(torch.nn.Module())) | {"forward"}

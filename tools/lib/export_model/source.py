# SPDX-License-Identifier: MIT
"""Where the module comes from: a class or a function in a file of one's own, or a name in torchvision, timm or transformers."""

import ast
import functools
import importlib
import importlib.util
import inspect
import itertools
import pathlib
import sys

import torch
from ddprun import UserError
from ddprun.beside_torch import NAMES
from export_model.inputs import NAMED, examples
from export_model.keras_model import KerasModel, from_keras, is_keras, prefer_torch
from export_model.programs import quiet

LIBRARIES = ("torchvision", "timm", "transformers")


def make_module(source, settings):
    return as_network(make(source, settings), source)


def make(source, settings, is_loss=False):
    """`source` is my_net.py:Net, torchvision:resnet18, timm:vit_tiny_patch16_224 or transformers:GPT2LMHeadModel; `settings` are the
    constructor's arguments, for transformers those of its configuration. Where it may be a loss, a function that takes arguments is one,
    and is returned as it is."""
    place, _, name = source.rpartition(":")
    if not place:
        raise UserError(f"{source}: expected FILE.py:NAME or LIBRARY:NAME, such as my_net.py:Net or torchvision:resnet18")
    if place in LIBRARIES:
        return from_library(place, name, settings)
    made = named_in(pathlib.Path(place), name)
    if is_loss and not inspect.isclass(made) and needs_arguments(made, settings):
        return functools.partial(made, **settings) if settings else made
    return call(made, source, settings)


def needs_arguments(function, settings):
    parameters = inspect.signature(function).parameters.values()
    return any(one.kind in NAMED and one.default is one.empty and one.name not in settings for one in parameters)


def as_network(made, source):
    if is_keras(made):
        made = from_keras(made, source)
    if not isinstance(made, torch.nn.Module):
        raise UserError(f"{source} gives a {type(made).__name__}: expected a torch.nn.Module")
    module = unwrapped(made)
    refuse_script(module, source)
    return module


def unwrapped(module):
    """Returns the module in a wrapper that trains it in other ways, as ddprun does by itself."""
    while True:
        inner = getattr(module, "_orig_mod", None)  # of torch.compile
        if isinstance(module, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            inner = module.module
        if inner is None:
            return module
        print(f"{type(module).__name__} is taken off: weights have the names of the module in it", file=sys.stderr)
        module = inner


def refuse_script(module, source):
    for name, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            what = f"its module {name}" if name else "the module"
            raise UserError(f"{source}: {what} is TorchScript, which cannot be traced; export the module in Python that it was made of")


def complete(module, inputs):
    """Calls a module with lazy layers once, as Python does before a training: that gives them their weights."""
    first_call = module.build if isinstance(module, KerasModel) else lambda given: module(**given)
    if not lazy_tensors(module) and not isinstance(module, KerasModel):
        return
    mode = module.training
    module.eval()
    try:
        with torch.no_grad(), quiet():
            first_call(examples(inputs, 2, seed=0))
    except UserError:
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise UserError(f"its first call, which makes the weights of lazy layers: {type(error).__name__}: {first}") from error
    if lazy_tensors(module):
        raise UserError(f"{', '.join(lazy_tensors(module))}: a call of the module does not make these weights")
    module.train(mode)


def lazy_tensors(module):
    named = itertools.chain(module.named_parameters(), module.named_buffers())
    return [name for name, tensor in named if torch.nn.parameter.is_lazy(tensor)]


def from_library(library, name, settings):
    try:
        package = importlib.import_module(f"{library}.models" if library == "torchvision" else library)
    except Exception as error:  # there is none, or its torchvision was made for another torch
        cause = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{library} cannot be imported: {cause}. {to_install(library)}") from None
    if library == "torchvision":
        return call(lambda **given: package.get_model(name, weights=None, **given), f"torchvision:{name}", settings)
    if library == "timm":
        return call(functools.partial(package.create_model, name), f"timm:{name}", settings)
    return from_transformers(package, name, settings)


def to_install(*packages):
    """Named in one command with torch, packages come in the versions that fit it; alone they may bring another torch."""
    names = dict.fromkeys((*packages, *(name for name in NAMES if importlib.util.find_spec(name))))
    version = torch.__version__.split("+")[0]
    return f"To install what fits torch {torch.__version__}: {sys.executable} -m pip install torch=={version} {' '.join(names)}"


def mending_of(error):
    """Returns what to install where one of these packages is missing, or made for another torch; "" where something else is wrong."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) and cause not in causes:
        causes.append(cause)
    if any(name not in sys.modules and comes_from(cause, name) for cause in causes for name in NAMES):
        return to_install()
    missing = {str(cause.name).partition(".")[0] for cause in causes if isinstance(cause, ModuleNotFoundError)}
    known = [name for name in dict.fromkeys((*LIBRARIES, *NAMES)) if name in missing]
    return to_install(*known) if known else ""


def comes_from(error, package):
    """Whether it was raised within the package."""
    spec = importlib.util.find_spec(package)
    folders = [pathlib.Path(one) for one in spec.submodule_search_locations or []] if spec else []
    trace = error.__traceback__
    while trace:
        file = pathlib.Path(trace.tb_frame.f_code.co_filename)
        if any(folder in file.parents for folder in folders):
            return True
        trace = trace.tb_next
    return False


def from_transformers(package, name, settings):
    made = getattr(package, name, None)
    if not (inspect.isclass(made) and getattr(made, "config_class", None)):
        raise UserError(f"transformers:{name}: expected a model's class, such as transformers:GPT2LMHeadModel")
    config = call(made.config_class, f"the configuration of transformers:{name}", {"use_cache": False, **settings})
    return made(config)


def named_in(file, name):
    """Runs a file. Returns its class or function of this name."""
    if not file.is_file():
        raise UserError(f"{file}: no such file; expected FILE.py:NAME, or {', '.join(LIBRARIES)} and a name")
    sys.path.insert(0, str(file.resolve().parent))
    prefer_torch()
    spec = importlib.util.spec_from_file_location(file.stem, file)
    code = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = code
    try:
        spec.loader.exec_module(code)
    except Exception as error:
        mending = mending_of(error)
        raise UserError(f"{where_of(error, file)}: {type(error).__name__}: {error}{mending and f'. {mending}'}") from error
    made = getattr(code, name, None)
    if not callable(made):
        known = [key for key, value in vars(code).items() if inspect.isclass(value) and issubclass(value, torch.nn.Module)]
        raise UserError(f"{file}: no class or function {name}; modules in it: {', '.join(known) or 'none'}")
    return made


def call(make, what, settings):
    try:
        return make(**settings)
    except Exception as error:
        given = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        advice = mending_of(error)
        advice = f". {advice}" if advice else "; --set NAME=VALUE gives an argument"
        raise UserError(f"{what}({given}): {type(error).__name__}: {error}{advice}") from error


def parse_settings(words):
    """["widths=[16, 32]", "name=x"] as arguments: what is no number, list or such is a string."""
    settings = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier():
            raise UserError(f"--set {word}: expected NAME=VALUE")
        try:
            settings[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            settings[name] = text
    return settings


def where_of(error, file):
    """The line of the user's file that raised it: my_net.py:12."""
    lines = []
    trace = error.__traceback__
    while trace:
        if pathlib.Path(trace.tb_frame.f_code.co_filename).resolve() == file.resolve():
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.lineno:
        lines.append(error.lineno)
    return f"{file}:{lines[-1]}" if lines else str(file)

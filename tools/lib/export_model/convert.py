# SPDX-License-Identifier: MIT
"""What `ddprun export` calls for .pt2 and .onnx: NETWORK WEIGHTS ABOUT OUT FORMAT.

NETWORK is TorchScript that ddprun wrote, with its weights, or the file of the model plugin `exported`, whose weights are those of
WEIGHTS then. ABOUT is what a sample is, in JSON, and is kept in OUT."""

import json
import logging
import pathlib
import sys
import warnings

sys.dont_write_bytecode = True
sys.path.pop(0)  # this folder: its names are not for others

BATCH = 2  # of the example; 1 would be taken for a constant
ONNX_BYTES = 2_000_000_000  # what one protobuf file holds
TYPES = {"float64": "float64", "float16": "float16", "bfloat16": "bfloat16", "int64": "int64", "int32": "int32", "uint8": "uint8",
         "bool": "bool"}


class Refused(Exception):
    pass


def convert(network, weights, about, out, kind):
    text = pathlib.Path(about).read_text(encoding="utf-8")
    about = json.loads(text)
    extra = {"ddprun.json": text}
    if network.endswith(".ts"):
        program = program_of_script(network, about)
    else:
        program, others, losses = trained_programs(network, weights)
        if about["raw"]:
            program = reexported(Raw(program, about), about)
        else:
            extra |= others  # the model plugin `exported` trains it on
            extra["ddprun.json"] = json.dumps(about | losses, indent=1)
    if kind == "pt2":
        torch.export.save(program, out, extra_files=extra)
    else:
        save_onnx(program, about, out)


def program_of_script(file, about):
    from torch._export.converter import TS2EPConverter

    script = torch.jit.load(file, map_location="cpu").eval()
    program = TS2EPConverter(script, (example(about),), {}).convert()
    return reexported(whole_lists(program.module()), about)


def reexported(module, about):
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    return torch.export.export(module, (example(about),), dynamic_shapes=shapes)


def example(about):
    shape = (BATCH, *about["sample_shape"])
    generator = torch.Generator().manual_seed(0)
    if about["raw"]:
        return torch.randint(0, 256, shape, generator=generator).to(torch.uint8)
    if about["type"] in ("float32", "float64", "float16", "bfloat16"):
        return torch.randn(shape, generator=generator).to(getattr(torch, about["type"]))
    return torch.randint(0, max(1, min(about["classes"], 127)), shape, generator=generator).to(getattr(torch, about["type"]))


def whole_lists(module):
    """C++ writes one number where it means as many as there are dimensions, which torch.onnx does not take."""
    for node in module.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            continue
        arguments = list(node.args)
        for i, (formal, value) in enumerate(zip(schema.arguments, arguments)):
            if formal.N and isinstance(value, (list, tuple)) and len(value) == 1:
                arguments[i] = list(value) * formal.N
        node.args = tuple(arguments)
    module.recompile()
    return module


def trained_programs(file, weights):
    """The program for predictions with these weights, {record: text} of the others, which share them, and what ddprun.json says of a loss
    that the network computes, and of its configuration."""
    texts = {"eval.json": "", "train.json": "", "predict.json": "", "ddprun.json": ""}
    program = torch.export.load(file, extra_files=texts)
    trained = torch.load(weights, map_location="cpu", weights_only=True)
    with torch.no_grad():
        for name, value in program.state_dict.items():
            value.copy_(trained[name])
    about = json.loads(texts["ddprun.json"] or "{}")
    losses = {key: about[key] for key in ("results", "over", "network", "target", "transformers") if key in about}
    if texts["train.json"]:  # `ddprun export` wrote it: the one that was loaded is for predictions
        return program, {record: texts[record] for record in ("train.json", "eval.json") if texts[record]}, losses
    others = {"train.json": main_program(file)}
    if texts["predict.json"]:
        others["eval.json"] = texts["eval.json"]
    return parsed(texts["predict.json"] or texts["eval.json"], program), others, losses


def parsed(text, program):
    """The program of a text, over the tensors of another one."""
    from torch._export.serde.schema import ExportedProgram
    from torch._export.serde.serialize import ExportedProgramDeserializer, _bytes_to_dataclass

    found = _bytes_to_dataclass(ExportedProgram, text.encode())
    return ExportedProgramDeserializer().deserialize(found, program.state_dict, program.constants, None)


def main_program(file):
    with torch._C.DisableTorchFunctionSubclass():
        archive = torch._C.PyTorchFileReader(file)
    record = next(name for name in archive.get_all_records() if name.startswith("models/") and name.endswith(".json"))
    return archive.get_record(record).decode()


def only_input(program):
    """Its name, where it is given by name; tools/export_model writes programs that are called so."""
    names = program.call_spec.in_spec.children()[1].context
    if len(names) > 1:
        raise Refused(f"--raw is for networks with one input, and this one takes {', '.join(names)}")
    return names[0] if names else None


def make_raw():
    class Raw(torch.nn.Module):
        """Bytes in, probabilities of the classes out."""

        def __init__(self, program, about):
            super().__init__()
            black, white = (torch.tensor(about["bytes"][name]).view(1, -1, 1, 1) for name in ("black", "white"))
            self.network = program.module()
            self.name = only_input(program)
            self.register_buffer("black", black, persistent=False)
            self.register_buffer("step", (white - black) / 255, persistent=False)

        def forward(self, input):
            images = input.float() * self.step + self.black
            return (self.network(**{self.name: images}) if self.name else self.network(images)).softmax(1)

    return Raw


def save_onnx(program, about, out):
    size = sum(value.numel() * value.element_size() for value in program.state_dict.values())
    if size > ONNX_BYTES:
        raise Refused(f"the weights take {size / 1e9:.1f} GB and one .onnx file holds 2: take .pt2")
    made = torch.onnx.export(
        program, dynamo=True, verbose=False, input_names=["input"], output_names=["output"], external_data=False, optimize=True
    )
    made.model.metadata_props["ddprun"] = json.dumps(about)
    made.save(out, external_data=False)


def require_packages(kind):
    try:
        import torch  # noqa: F401

        missing = []
    except ImportError:
        raise Refused(f"there is no torch in {sys.executable}; DDPRUN_PYTHON=/path/to/python names another Python") from None
    if kind == "onnx":
        import importlib.util

        missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise Refused(f".onnx needs {' and '.join(missing)}: {sys.executable} -m pip install onnx onnxscript")


def first_line(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def main(words):
    global torch, Raw
    network, weights, about, out, kind = words
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    try:
        require_packages(kind)
        import torch

        Raw = make_raw()
        convert(network, weights, about, out, kind)
    except Refused as error:
        print(error)
        return 2
    except Exception as error:
        print(f"torch cannot write the network as .{kind}: {first_line(error)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

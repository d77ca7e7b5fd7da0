# SPDX-License-Identifier: MIT
"""python_reads_checkpoint_test.py PROGRAM: reads in Python what the C++ PROGRAM saved, value by value.

weights.pt by torch.load(weights_only=True), .safetensors by the package safetensors where it is installed, manifest.json by
hashlib.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import torch

DTYPES = {
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Long": torch.int64,
    "Int": torch.int32,
    "Short": torch.int16,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "Bool": torch.bool,
}


def expected_tensors():
    tensors = {}
    for name, dtype in DTYPES.items():
        matrix = torch.arange(12).view(3, 4).to(dtype)
        tensors[name + ".matrix"] = matrix
        tensors[name + ".scalar"] = torch.tensor(1).to(dtype)
        tensors[name + ".empty"] = torch.empty(0, 2, dtype=dtype)
        tensors[name + ".transposed"] = matrix.t()
    tensors["channels_last"] = torch.arange(120, dtype=torch.float32).view(2, 3, 4, 5)
    tensors["slice"] = torch.tensor([1000.0, 1001.0, 1002.0])
    tensors["special"] = torch.tensor([float("inf"), float("-inf"), -0.0, 1e-45])
    return tensors


def check_tensors(what, found):
    expected = expected_tensors()
    assert found.keys() == expected.keys(), f"{what}: {sorted(found)}"
    for name, tensor in expected.items():
        other = found[name]
        assert type(other) is torch.Tensor and not other.requires_grad, f"{what}: {name}: {type(other)}"
        assert other.dtype == tensor.dtype and other.shape == tensor.shape, f"{what}: {name}: {other}"
        assert torch.equal(other, tensor), f"{what}: {name}: {other}, expected {tensor}"
    assert torch.signbit(found["special"][2]), f"{what}: the sign of -0.0 is lost"


def check_torch_file(file):
    for load in ({}, {"mmap": True}):
        found = torch.load(file, weights_only=True, **load)
        check_tensors(file.name, found)
        assert found["slice"].untyped_storage().nbytes() == 12, "a view drags its whole storage along"
    assert found["channels_last"].is_contiguous(memory_format=torch.channels_last)


def check_state(folder):
    assert json.loads((folder / "state.json").read_text()) == {"epoch": 3, "name": "\u00e4"}
    try:
        from safetensors.torch import load_file
    except ImportError:
        print("skipped: the package safetensors is not installed: the checkpoint's tensors were not read by it")
        return
    for name in ("model.safetensors", "optimizer.safetensors"):
        check_tensors(name, load_file(folder / name))
    for rank in (0, 1):
        own = load_file(folder / f"rank_{rank}.safetensors")
        assert torch.equal(own["generator"], torch.full((16,), rank + 5, dtype=torch.uint8))


def check_manifest(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["step"] == 1200 and manifest["world_size"] == 2 and manifest["best"] is True, manifest
    assert manifest["torch"].startswith("2."), manifest
    assert manifest["files"].keys() == {
        "model.safetensors", "optimizer.safetensors", "state.json", "rank_0.safetensors", "rank_1.safetensors"}
    for name, stated in manifest["files"].items():
        content = (folder / name).read_bytes()
        assert stated == {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}, name


def main():
    with tempfile.TemporaryDirectory() as run:
        subprocess.run([sys.argv[1], run], check=True)
        folder = pathlib.Path(run, "checkpoints", "last")
        check_torch_file(pathlib.Path(run, "weights.pt"))
        check_state(folder)
        check_manifest(folder)
    print("all values are the same in Python")


main()

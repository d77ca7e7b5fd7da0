# SPDX-License-Identifier: MIT
"""Checkpoints' training.pt against torch: what torch.save() writes we read, and what we read of damaged files torch.load() reads too."""

import io
import random
import unittest
import zipfile

from readers import NIGHTLY, ReaderTest, Refused, main

try:
    import torch
    MISSING = None
except ImportError as error:
    MISSING = error.name

DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I16": "int16",
          "I8": "int8", "U8": "uint8", "BOOL": "bool"}
MUTATIONS = 20_000 if NIGHTLY else 1000


def saved(content):
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def with_pickle(content, change):
    """The same file with another data.pkl."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(file, "w") as target:
        for name in source.namelist():
            record = source.read(name)
            target.writestr(name, change(record) if name.endswith("data.pkl") else record)
    return file.getvalue()


def shown(content):
    """As our reader's program prints it."""
    if isinstance(content, str):
        return content
    names = {getattr(torch, name): shorter for shorter, name in DTYPES.items()}
    return {name: {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                   "data": bytes(tensor.contiguous().view(-1).view(torch.uint8).tolist()).hex()} for name, tensor in content.items()}


class TrainingFile(ReaderTest):
    def setUp(self):
        self.random = random.Random(25)

    def content(self, count):
        torch.manual_seed(self.random.randrange(1 << 30))
        tensors = {f"layer.{i}/momentum": (torch.randn(self.random.choice([(), (3,), (2, 2), (0, 4), (1, 2, 3)])) * 9).to(
            getattr(torch, self.random.choice(list(DTYPES.values())))) for i in range(count)}
        tensors["transposed"] = torch.arange(6.0).view(2, 3).t().clone(memory_format=torch.preserve_format)
        return {"optimizer": tensors, "empty": {}, "progress": '{"name": "\xe4"}'}

    def test_what_torch_saves_is_read_as_it_was(self):
        for count in (0, 1, 20, 300):  # more than 256 remembered values have longer numbers
            content = self.content(count)
            self.assertEqual(self.read("training", saved(content)), {name: shown(part) for name, part in content.items()})

    def test_a_tensor_of_two_names(self):
        tensor = torch.ones(3)
        found = self.read("training", saved({"optimizer": {"a": tensor, "b": tensor}}))["optimizer"]
        self.assertEqual(found["a"], found["b"])

    def mutated(self, pickle):
        """A few bytes changed, removed, or put where others are."""
        pickle = bytearray(pickle)
        for _ in range(self.random.randint(1, 3)):
            at, kind = self.random.randrange(len(pickle)), self.random.randrange(4)
            if kind == 0:
                pickle[at] = self.random.randrange(256)
            elif kind == 1:
                pickle[at] ^= 1 << self.random.randrange(8)
            elif kind == 2:
                del pickle[at:at + self.random.randint(1, 4)]
            else:
                start = self.random.randrange(len(pickle))
                pickle[at:at] = pickle[start:start + self.random.randint(1, 40)]
        return bytes(pickle)

    def test_what_we_read_of_damaged_files_torch_reads_too(self):
        taken = 0
        whole = saved(self.content(3))
        for _ in range(MUTATIONS):
            content = with_pickle(whole, self.mutated)
            try:
                found = self.read("training", content)
            except Refused:
                continue
            try:
                theirs = {name: shown(part) for name, part in torch.load(io.BytesIO(content), weights_only=True).items()}
            except (UnicodeDecodeError, TypeError):  # LibTorch takes texts as their bytes are, and counts no arguments
                continue
            except Exception as error:
                theirs = str(error)
            taken += 1
            with self.subTest(content=zipfile.ZipFile(io.BytesIO(content)).read("archive/data.pkl")):
                self.assertEqual(found, theirs)
        self.assertGreater(taken, 0)


if __name__ == "__main__":
    main(MISSING)

# SPDX-License-Identifier: MIT
"""Our two uses of .safetensors, weights and the dataset tensors, against the package of that name: values, and what is no valid file.

Who takes a file reads the same from it. We refuse what the package takes where ON_PURPOSE says so, and never the other way round.
"""

import json
import random
import unittest

from readers import ReaderTest, require

require("numpy", "safetensors", "torch")
import numpy  # noqa: E402
import safetensors  # noqa: E402
import torch  # noqa: E402

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
# What the package takes and we do not: part of our text.
ON_PURPOSE = {
    "an empty shape whose product is not": "too large",  # LibTorch multiplies all extents
    "a field that nobody knows": "and nothing else",  # it might change what the values mean
    "nested in what nobody knows": "deeper than 8 levels",
    "a tensor that is a list": "and nothing else",
    "a name twice": "the key \"x\" appears twice",  # which of the two counts?
    "one key of the metadata twice": "the key \"a\" appears twice",
}
SHAPES = [[], [0], [1], [5], [2, 3], [3, 0, 2], [2, 1, 2, 1]]


def entry(dtype="U8", shape=(4,), begin=0, end=4, **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]} | more


def file_of(header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def text_of(pairs):
    """A JSON object with keys that may stand twice."""
    return ("{" + ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in pairs) + "}").encode()


class Safetensors(ReaderTest):
    def setUp(self):
        self.random = random.Random(23)

    def their_tensors(self, content):
        """[name, type, shape, bytes] of each, or what is wrong."""
        return sorted((name, value["dtype"], list(value["shape"]), bytes(value["data"]))
                      for name, value in safetensors.deserialize(content))

    def our_tensors(self, reader, content):
        names = [name for name, *_ in self.their_tensors(content)] if reader == "dataset" else []
        found = self.read(reader, content, *names)
        return sorted((name, value["dtype"], value["shape"], bytes.fromhex(value["data"])) for name, value in found.items())

    def compare(self, content):
        for reader in ("weights", "dataset"):
            self.assertEqual(self.our_tensors(reader, content), self.their_tensors(content), reader)

    def data(self, dtype, count):
        return bytes(self.random.choices((0, 1), k=count)) if dtype == "BOOL" else self.random.randbytes(count * SIZES[dtype])

    def file(self, tensors):
        """A file of [name, type, shape], in an order and with a padding of chance."""
        header, data = {}, b""
        for name, dtype, shape in self.random.sample(tensors, len(tensors)):
            values = self.data(dtype, int(numpy.prod(shape, dtype=int)))
            header[name] = entry(dtype, shape, len(data), len(data) + len(values))
            data += values
        if self.random.random() < 0.5:
            header["__metadata__"] = {"format": "pt", "\xe4": "\u2028"}
        return file_of(json.dumps(header).encode() + b" " * self.random.randrange(9), data)

    def test_tensors_of_every_type_and_shape_are_those_that_the_package_reads(self):
        kinds = [(f"{dtype} {shape}", dtype, shape) for dtype in SIZES for shape in SHAPES]
        for count in (0, 1, 3, 10, len(kinds)):
            for _ in range(5):
                with self.subTest(count=count):
                    self.compare(self.file(self.random.sample(kinds, count)))

    def test_names_of_every_kind_of_text(self):
        names = ["", " ", "a.b/c", "\"quoted\"", "back\\slash", "\xe4\u20ac\U0001f600", "new\nline", "\u007f", "__metadata"]
        header = {name: entry("U8", [1], i, i + 1) for i, name in enumerate(names)}
        content = file_of(header, bytes(range(len(names))))
        self.assertEqual(self.our_tensors("weights", content), self.their_tensors(content))

    def test_a_header_of_two_hundred_thousand_tensors(self):
        """Time that grew with the square of their number would not end within the test's."""
        count = 200_000
        content = file_of({f"t{i}": entry("U8", [1], i, i + 1) for i in range(count)}, bytes(count))
        self.assertEqual(len(self.read("weights", content)), count)
        self.assertEqual(self.read("dataset", content, "t7")["t7"]["shape"], [1])

    def test_files_of_other_frameworks(self):
        from safetensors.torch import save
        self.compare(save({"weight": torch.randn(4, 5), "bias": torch.arange(5), "half": torch.ones(3).bfloat16()}, {"by": "torch"}))

    def invalid(self):
        one, four = entry(), bytes(4)
        yield "valid", {"x": one}, four
        yield "a hole", {"x": entry(shape=[2], end=2), "y": entry(shape=[1], begin=3)}, four
        yield "a hole at the begin", {"x": entry(shape=[2], begin=2)}, four
        yield "an overlap", {"x": entry(shape=[3], end=3), "y": entry(shape=[2], begin=2)}, four
        yield "the same place twice", {"x": one, "y": one}, four
        yield "data beyond the last", {"x": one}, bytes(5)
        yield "too few data", {"x": one}, bytes(3)
        yield "no tensors, but data", {}, four
        yield "an unknown type", {"x": entry("U7")}, four
        yield "a type in small letters", {"x": entry("u8")}, four
        yield "a type that is a number", {"x": entry(8)}, four
        yield "shape and place differ", {"x": entry("F32", [2])}, four
        yield "places run backwards", {"x": entry(shape=[0], begin=4, end=0)}, four
        yield "a negative place", {"x": entry(begin=-4, end=0)}, four
        yield "a fraction of a place", {"x": entry(begin=0, end=4.0)}, four
        yield "three places", {"x": {"dtype": "U8", "shape": [4], "data_offsets": [0, 2, 4]}}, four
        yield "a negative extent", {"x": entry(shape=[-4])}, four
        yield "a shape that is a number", {"x": {"dtype": "U8", "shape": 4, "data_offsets": [0, 4]}}, four
        yield "a shape beyond 64 bits", {"x": entry(shape=[2**64])}, four
        yield "a product beyond 64 bits", {"x": entry(shape=[2**32, 2**32], end=0)}, b""
        yield "an empty shape whose product is not", {"x": entry(shape=[0, 2**62, 9], end=0)}, b""
        yield "no type", {"x": {"shape": [4], "data_offsets": [0, 4]}}, four
        yield "no shape", {"x": {"dtype": "U8", "data_offsets": [0, 4]}}, four
        yield "no place", {"x": {"dtype": "U8", "shape": [4]}}, four
        yield "a field that nobody knows", {"x": entry(scale=2)}, four
        yield "a tensor that is null", {"x": None}, b""
        yield "a tensor that is a list", {"x": ["U8", [4], [0, 4]]}, four
        yield "metadata that hold a number", {"__metadata__": {"a": 1}, "x": one}, four
        yield "metadata that are a text", {"__metadata__": "a", "x": one}, four
        yield "metadata that are null", {"__metadata__": None, "x": one}, four
        yield "metadata that nest", {"__metadata__": {"a": {"b": "c"}}, "x": one}, four
        yield "a name twice", text_of([("x", one), ("x", one)]), four
        yield "a field twice", b'{"x":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}}', four
        yield "metadata twice", text_of([("__metadata__", {}), ("__metadata__", {}), ("x", one)]), four
        yield "one key of the metadata twice", b'{"__metadata__":{"a":"b","a":"b"},"x":' + json.dumps(one).encode() + b"}", four
        yield "no JSON", b"{nonsense", b""
        yield "no object", b"[]", b""
        yield "an empty header", b"", b""
        yield "a number that begins with 0", b'{"x":{"dtype":"U8","shape":[04],"data_offsets":[0,4]}}', four
        yield "a comment", b'{"x":' + json.dumps(one).encode() + b"/* */}", four
        yield "a comma too many", b'{"x":' + json.dumps(one).encode() + b",}", four
        yield "text after the end", b"{} x", b""
        yield "zeros after the end", b"{}\0\0", b""
        yield "spaces before the begin", b"  {}", b""
        yield "a mark of the byte order", b"\xef\xbb\xbf{}", b""
        yield "no UTF-8", b'{"\xff":' + json.dumps(one).encode() + b"}", four
        yield "half of a pair of surrogates", b'{"\\ud800":' + json.dumps(one).encode() + b"}", four
        yield "nested and closed", {"x": one | {"shape": json.loads("[" * 500 + "]" * 500)}}, four
        yield "nested, closed and deep", b'{"x":{"dtype":"U8","data_offsets":[0,4],"shape":' + b"[" * 200_000 + b"]" * 200_000 + b"}}", four
        yield "places nested and deep", b'{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,' + b"[" * 200_000 + b"]" * 200_000 + b"]}}", four
        yield "nested in what nobody knows", b'{"x":{"y":' + b"[" * 100 + b"]" * 100 + b',"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', four
        yield "nested and open", b"[" * 200_000, b""
        yield "a header that is too long for the file", {"x": one}, four, 1000
        yield "a header of more than 100 MB", {"x": one}, four, 100_000_001
        yield "a header of 2^64 - 1 bytes", {"x": one}, four, 2**64 - 1
        yield "a header cut short", {"x": one}, four, 20

    def test_what_is_no_valid_file_is_refused_as_the_package_does(self):
        for name, *parts in self.invalid():
            content = file_of(*parts)
            try:
                names = [tensor for tensor, *_ in self.their_tensors(content)]
            except Exception:  # the package's own type
                names = ["x"]
            for reader, words in (("weights", []), ("dataset", names)):
                with self.subTest(name, reader=reader):
                    ours = self.refusal(reader, content, *words)
                    if name in ON_PURPOSE:
                        self.assert_only_theirs(reader, content, self.their_tensors, ON_PURPOSE[name])
                    elif self.assert_same_verdict(reader, content, self.their_tensors, *words):
                        self.compare(content)
                    self.assertLess(len(ours or ""), 1000)

    def test_every_truncation_is_refused(self):
        whole = self.file([("x", "F32", [2, 3]), ("y", "I64", [2])])
        for size in range(len(whole)):
            for reader in ("weights", "dataset"):
                self.assertIsNotNone(self.refusal(reader, whole[:size], "x", "y"), size)


if __name__ == "__main__":
    unittest.main()

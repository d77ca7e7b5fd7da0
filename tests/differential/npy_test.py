# SPDX-License-Identifier: MIT
"""Arrays of numpy.save as the dataset tensors reads them against NumPy: types, orders, versions of the format, damaged headers.

What we take has NumPy's type, shape and values. We refuse more than NumPy does, with a text that says what to do; the rows of its test list it.
"""

import io
import random
import struct
import unittest

from readers import ReaderTest, require

require("numpy")
import numpy  # noqa: E402

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1", "BOOL": "|b1"}
SHAPES = [(), (0,), (1,), (7,), (2, 3), (0, 4), (3, 1, 2), (1, 1, 1, 1, 5)]

def file_of(array, version=None):
    file = io.BytesIO()
    numpy.lib.format.write_array(file, array, version=version)
    return file.getvalue()


def load(content):
    return numpy.load(io.BytesIO(content))


def with_header(text, values, version=1):
    """A file with any text as its header, padded as NumPy pads it."""
    text = text.encode("latin1") if isinstance(text, str) else text
    length = struct.Struct("<H" if version == 1 else "<I")
    text += b" " * (-(8 + length.size + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + length.pack(len(text)) + text + values


def header(descr="'<f4'", order="False", shape="(2,)", more=""):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, {more}}}"


class Npy(ReaderTest):
    def setUp(self):
        self.random = random.Random(22)

    def array(self, descr, shape):
        dtype = numpy.dtype(descr)
        count = int(numpy.prod(shape, dtype=int))
        if dtype == bool:
            return numpy.array([self.random.random() < 0.5 for _ in range(count)], dtype).reshape(shape)
        return numpy.frombuffer(self.random.randbytes(count * dtype.itemsize), dtype).reshape(shape)  # all bits, NaNs too

    def compare(self, content):
        """Both read it, and read the same."""
        array, found = load(content), self.read("npy", content)
        self.assertEqual(found["shape"], list(array.shape))
        self.assertEqual(numpy.dtype(DTYPES[found["dtype"]]), array.dtype)
        self.assertEqual(bytes.fromhex(found["data"]), array.tobytes())

    def test_arrays_of_every_type_shape_and_version_are_those_that_were_saved(self):
        for descr in DTYPES.values():
            for shape in SHAPES:
                for version in ((1, 0), (2, 0), (3, 0)):
                    with self.subTest(descr=descr, shape=shape, version=version):
                        self.compare(file_of(self.array(descr, shape), version))

    def test_what_only_numpy_reads_is_refused_for_a_reason(self):
        values = numpy.arange(6, dtype="<f4").reshape(2, 3)
        for name, content, reason in (
            ("big-endian", file_of(values.astype(">f4")), "is big-endian ('>f4')"),
            ("Fortran order", file_of(numpy.asfortranarray(values)), "is in Fortran order"),
            ("unsigned, more than 8 bits", file_of(values.astype("<u2")), "values of type '<u2'"),
            ("complex", file_of(values.astype("<c8")), "values of type '<c8'"),
            ("text", file_of(numpy.array(["abc"])), "values of type '<U3'"),
            ("bytes", file_of(numpy.array([b"abc"])), "values of type '|S3'"),
            ("dates", file_of(numpy.array(["2026-01-01"], "<M8[D]")), "values of type '<M8[D]'"),
            ("records", file_of(numpy.zeros(2, [("x", "<f4"), ("y", "<i8")])), "records of several fields"),
            ("bytes after the values", file_of(values) + b"more", "there is more than the header says"),
            ("a type without byte order", with_header(header("'f4'"), bytes(8)), "values of type 'f4'"),
            ("a type of another name", with_header(header("'float32'"), bytes(8)), "values of type 'float32'"),
            ("shape as long", with_header(header(shape="(2L,)"), bytes(8)), "expected a ,, found \"L"),
        ):
            with self.subTest(name):
                self.assert_only_theirs("npy", content, load, reason)

    def test_odd_headers_are_taken_or_refused_as_numpy_does(self):
        texts = {
            "the usual one": header(),
            "another order of keys": "{'shape': (2,), 'descr': '<f4', 'fortran_order': False}",
            "quotes of the other kind": '{"descr": "<f4", "fortran_order": False, "shape": (2,)}',
            "no spaces": "{'descr':'<f4','fortran_order':False,'shape':(2,)}",
            "Fortran order of one dimension": header(order="True"),
            "native order by name": header("'=f4'"),
            "no order, by name": header("'|f4'"),
            "order of a single byte": header("'<i1'", shape="(8,)"),
            "big-endian single bytes": header("'>u1'", shape="(8,)"),
            "an order that is none": header("'xf4'"),
            "a type that is several": header("'2f4'", shape="(1,)"),
            "an order that is a space": header("' f4'"),
            "a type that is none": header("'<q4'"),
            "a type of no name": header("''"),
            "an extra key": header(more="'more': 1"),
            "a missing key": "{'descr': '<f4', 'shape': (2,)}",
            "a shape that is a list": header(shape="[2]"),
            "a shape that is a number": header(shape="2"),
            "a shape in brackets alone": header(shape="(2)"),
            "a shape with a sign": header(shape="(-2,)"),
            "a shape with a fraction": header(shape="(2.0,)"),
            "a shape of a truth": header(shape="(True, 2)"),
            "two commas": header(shape="(2,,)"),
            "a comma alone": header(shape="(,)"),
            "no dimensions": header("'<f8'", shape="()"),
            "spaces within": header(shape="( 2 , )"),
            "a shape with a leading zero": header(shape="(02,)"),
            "a shape beyond 64 bits": header(shape="(36893488147419103232,)"),
            "a shape whose product is beyond 64 bits": header(shape="(4294967296, 4294967296)"),
            "an empty shape that is large": header(shape="(0, 9223372036854775807, 9)"),
            "order as a number": header(order="0"),
            "order as a word": header(order="'no'"),
            "order in small letters": header(order="false"),
            "a list": "[1, 2]",
            "nothing": "",
            "text after the end": header() + "x",
            "not closed": header()[:-1],
            "deep": "(" * 5000 + ")" * 5000,
            "not ASCII": header(more="'\xe4': 1"),
        }
        for name, text in texts.items():
            for version in (1, 2, 3):
                with self.subTest(name, version=version):
                    self.agree(with_header(text, bytes(8), version))

    def agree(self, content):
        if self.assert_same_verdict("npy", content, load) and load(content).size:
            self.compare(content)

    def test_every_truncation_is_refused(self):
        whole = file_of(self.array("<i2", (3, 5)))
        for size in range(len(whole)):
            self.agree(whole[:size])


if __name__ == "__main__":
    unittest.main()

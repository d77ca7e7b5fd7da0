# SPDX-License-Identifier: MIT
"""PNG files as the dataset image_folder decodes them against Pillow: every kind of colour, depth, transparency, interlace, gamma.

Both drop transparency and ignore gamma. They differ in one thing, on purpose: of 16 bits Pillow keeps the upper 8 (and of grey nothing
that is whiter than 255), we keep the nearest of 256 steps.
"""

import io
import random
import struct
import unittest

from readers import ReaderTest, main

try:
    import numpy
    import PIL.Image
    MISSING = None
except ImportError as error:
    MISSING = error.name
import png_writer
from png_writer import GREY, GREY_ALPHA, PALETTE, RGB, RGBA

GAMMA = (b"gAMA", struct.pack(">I", 100000))
SRGB = (b"sRGB", b"\0")
BACKGROUND = {GREY: b"\0\1", RGB: b"\0\1\0\2\0\3", GREY_ALPHA: b"\0\1", RGBA: b"\0\1\0\2\0\3", PALETTE: b"\0"}
SIZES = [(1, 1), (2, 3), (5, 8), (9, 7), (33, 17)]


def rounded(samples):
    """16 bits to the nearest of 256 steps."""
    return ((samples.astype(numpy.int64) * 255 + 32767) // 65535).astype(numpy.uint8)


def grey_of(colour):
    red, green, blue = (colour[..., i].astype(numpy.int64) for i in range(3))
    return ((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16).astype(numpy.uint8)


class Png(ReaderTest):
    def setUp(self):
        self.random = random.Random(20)

    def sample(self, kind, depth, size, colours):
        height, width = size
        most = colours - 1 if kind == PALETTE else (1 << depth) - 1
        channels = png_writer.CHANNELS[kind]
        return [[tuple(self.random.randint(0, most) for _ in range(channels)) for _ in range(width)] for _ in range(height)]

    def transparencies(self, kind, depth, pixels, colours):
        """tRNS chunks: none; the colour of the first pixel; of a palette some of the entries, or all."""
        if kind == PALETTE:
            return [None, bytes([0]), bytes(self.random.randbytes(colours))]
        if kind in (GREY, RGB):
            return [None, struct.pack(f">{len(pixels[0][0])}H", *pixels[0][0])]
        return [None]

    def expected(self, content, depth):
        """Pillow's picture in colour and in grey, from the samples themselves where it has 16 bits."""
        picture = PIL.Image.open(io.BytesIO(content))
        if depth == 16 and picture.mode.startswith("I"):
            grey = rounded(numpy.asarray(picture))
            return numpy.repeat(grey[..., None], 3, axis=2), grey
        colour = numpy.asarray(picture.convert("RGB"))
        return colour, numpy.asarray(picture.convert("L"))

    def decoded(self, content):
        colour, grey = self.read("rgb", content), self.read("grey", content)
        return [numpy.frombuffer(bytes.fromhex(one["data"]), numpy.uint8).reshape(one["shape"]) for one in (colour, grey)]

    def compare(self, content, depth, colour_bits_are_cut):
        colour, grey = self.decoded(content)
        colour_there, grey_there = self.expected(content, depth)
        self.assertEqual(colour.shape, colour_there.shape)
        step = 1 if colour_bits_are_cut else 0
        self.assertLessEqual(numpy.abs(colour.astype(int) - colour_there).max(), step)
        self.assertLessEqual(numpy.abs(grey[..., 0].astype(int) - grey_there).max(), step)

    def kinds(self):
        for kind, depths in png_writer.DEPTHS.items():
            for depth in depths:
                yield kind, depth

    def test_pixels_of_every_kind_are_those_that_pillow_reads(self):
        for kind, depth in self.kinds():
            for size in SIZES:
                colours = self.random.randint(1, 1 << min(depth, 8))
                pixels = self.sample(kind, depth, size, colours)
                palette = self.random.randbytes(3 * colours) if kind == PALETTE else b""
                for transparency in self.transparencies(kind, depth, pixels, colours):
                    for interlaced in (False, True):
                        for chunks in ((), (GAMMA,), (SRGB, GAMMA)):
                            with self.subTest(kind=kind, depth=depth, size=size, transparency=transparency,
                                              interlaced=interlaced, chunks=chunks):
                                content = png_writer.png(pixels, kind, depth, self.random, interlaced, chunks, palette, transparency)
                                self.compare(content, depth, depth == 16 and kind != GREY)

    def test_samples_of_16_bits_become_the_nearest_of_256_steps(self):
        pixels = [[(value, 65535 - value, value // 2) for value in range(start, 65536, 997)] for start in range(0, 300, 37)]
        width = min(map(len, pixels))
        pixels = [row[:width] for row in pixels]
        colour, grey = self.decoded(png_writer.png(pixels, RGB, 16, self.random))
        numpy.testing.assert_array_equal(colour, rounded(numpy.array(pixels)))
        numpy.testing.assert_array_equal(grey[..., 0], grey_of(colour))

    def test_odd_files_are_taken_or_refused_as_pillow_does(self):
        pixels = self.sample(RGB, 8, (6, 5), 0)
        good = png_writer.png(pixels, RGB, 8, self.random)
        small = png_writer.png([[(3,)]], PALETTE, 8, self.random, palette=bytes(6))
        data_at = good.index(b"IDAT")
        files = {
            "good": good,
            "bytes after the end": good + b"more",
            "without data": good[:data_at - 4] + png_writer.chunk(b"IEND", b""),
            "cut within the data": good[:data_at + 20],
            "a wrong sum of the header": good.replace(good[29:33], b"\1\2\3\4", 1),
            "no width": png_writer.png([[]], RGB, 8, self.random),
            "a colour that the palette lacks": small,
            "an unknown chunk that may be skipped": png_writer.png(pixels, RGB, 8, self.random, chunks=[(b"teSt", b"x" * 9)]),
            "a depth that is none": png_writer.png([[(1,)]], GREY, 3, self.random),
            "a depth that colours cannot have": png_writer.png([[(1, 2, 3)]], RGB, 4, self.random),
            "a palette of 16 bits": png_writer.png([[(1,)]], PALETTE, 16, self.random, palette=bytes(6)),
            "a palette of more colours than the depth has": png_writer.png([[(1,)]], PALETTE, 1, self.random, palette=bytes(range(12))),
            "more transparencies than colours": png_writer.png([[(1,)]], PALETTE, 8, self.random, palette=bytes(range(6)),
                                                               transparency=bytes(9)),
            "a palette that colours do not need": png_writer.png(pixels, RGB, 8, self.random, palette=bytes(range(12))),
            "a palette and grey": png_writer.png([[(7,)]], GREY, 8, self.random, palette=bytes(range(12))),
        }
        for name, content in files.items():
            with self.subTest(name):
                ours, theirs = self.refusal("rgb", content), None
                try:
                    self.expected(content, 8)
                except Exception as error:  # Pillow has many of them
                    theirs = error
                self.assertEqual(ours is None, theirs is None, f"ours: {ours}, Pillow's: {theirs}")
                if ours is None:
                    self.compare(content, 8, False)

    def test_what_is_damaged_is_refused_though_pillow_makes_something_of_it(self):
        good = png_writer.png(self.sample(RGB, 8, (6, 5), 0), RGB, 8, self.random)
        files = {
            "CRC error": good[:-16] + bytes([good[-16] ^ 1]) + good[-15:],
            "Missing PLTE": png_writer.png([[(1,)]], PALETTE, 8, self.random),
            "PLTE: invalid": png_writer.png([[(1,)]], PALETTE, 8, self.random, palette=bytes(5)),
        }
        for text, content in files.items():
            with self.subTest(text):
                self.expected(content, 8)
                self.assertIn(text, self.refusal("rgb", content) or "it was taken")

    def test_a_damaged_chunk_of_what_is_dropped_anyway_is_no_reason_to_refuse(self):
        pixels = self.sample(RGB, 8, (6, 5), 0)
        colour, _ = self.decoded(png_writer.png(pixels, RGB, 8, self.random, transparency=b"\1"))
        numpy.testing.assert_array_equal(colour, numpy.array(pixels))

    def test_a_background_colour_is_not_blended_in(self):
        for kind, background in BACKGROUND.items():
            pixels = self.sample(kind, 8, (3, 4), 4)
            content = png_writer.png(pixels, kind, 8, self.random, palette=bytes(range(12)) if kind == PALETTE else b"",
                                     transparency=bytes([0, 9]) if kind == PALETTE else None)
            at = content.index(b"IDAT") - 4
            with self.subTest(kind=kind):
                self.compare(content[:at] + png_writer.chunk(b"bKGD", background) + content[at:], 8, False)


if __name__ == "__main__":
    main(MISSING)

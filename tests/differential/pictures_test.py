# SPDX-License-Identifier: MIT
"""PNG, JPEG and WebP as the dataset image_folder decodes them against Pillow: every kind of colour, depth, transparency, interlace, sampling,
and the orientation that Exif data give.

PNG: both drop transparency and ignore gamma. They differ in one thing, on purpose: of 16 bits Pillow keeps the upper 8 (and of grey nothing
that is whiter than 255), we keep the nearest of 256 steps. JPEG: two builds of one library may round differently. Of a picture in colours
our grey is the file's own brightness, which Pillow gives where it is asked before it decodes (draft); Image.convert("L") mixes it anew from
colours that have been clipped.
"""

import io
import random
import struct
import unittest

import png_writer
from png_writer import GREY, GREY_ALPHA, PALETTE, RGB, RGBA
from readers import ReaderTest, require

require("numpy", "PIL.Image")
import numpy  # noqa: E402
import PIL.Image  # noqa: E402
import PIL.ImageOps  # noqa: E402

GAMMA = (b"gAMA", struct.pack(">I", 100000))
SRGB = (b"sRGB", b"\0")
BACKGROUND = {GREY: b"\0\1", RGB: b"\0\1\0\2\0\3", GREY_ALPHA: b"\0\1", RGBA: b"\0\1\0\2\0\3", PALETTE: b"\0"}
PNG_SIZES = [(1, 1), (2, 3), (5, 8), (9, 7), (33, 17)]


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

    def compare(self, content, depth, colour_bits_are_cut):
        step = 1 if colour_bits_are_cut else 0
        colour, grey = self.expected(content, depth)
        self.assert_near(self.pixels("rgb", content), colour, step)
        self.assert_near(self.pixels("grey", content)[..., 0], grey, step)

    def kinds(self):
        for kind, depths in png_writer.DEPTHS.items():
            for depth in depths:
                yield kind, depth

    def test_pixels_of_every_kind_are_those_that_pillow_reads(self):
        for kind, depth in self.kinds():
            for size in PNG_SIZES:
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
        content = png_writer.png(pixels, RGB, 16, self.random)
        colour = self.pixels("rgb", content)
        self.assert_near(colour, rounded(numpy.array(pixels)))
        self.assert_near(self.pixels("grey", content)[..., 0], grey_of(colour))

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
                if self.assert_same_verdict("rgb", content, lambda content: self.expected(content, 8)):
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
                self.assert_only_theirs("rgb", content, lambda content: self.expected(content, 8), text)

    def test_a_damaged_chunk_of_what_is_dropped_anyway_is_no_reason_to_refuse(self):
        pixels = self.sample(RGB, 8, (6, 5), 0)
        self.assert_near(self.pixels("rgb", png_writer.png(pixels, RGB, 8, self.random, transparency=b"\1")), pixels)

    def test_a_background_colour_is_not_blended_in(self):
        for kind, background in BACKGROUND.items():
            pixels = self.sample(kind, 8, (3, 4), 4)
            content = png_writer.png(pixels, kind, 8, self.random, palette=bytes(range(12)) if kind == PALETTE else b"",
                                     transparency=bytes([0, 9]) if kind == PALETTE else None)
            at = content.index(b"IDAT") - 4
            with self.subTest(kind=kind):
                self.compare(content[:at] + png_writer.chunk(b"bKGD", background) + content[at:], 8, False)


SIZES = [(1, 1), (7, 9), (8, 8), (16, 33), (61, 40)]
ROUNDING = 2


def shown(content):
    """The picture in colours, turned as it is to be seen."""
    with PIL.Image.open(io.BytesIO(content)) as opened:
        return numpy.asarray(PIL.ImageOps.exif_transpose(opened).convert("RGB")).astype(int)


def soft_noise(random, height, width, channels):
    """Colours that change from pixel to pixel, but not at random: what is lost by sampling stays small."""
    y, x, c = numpy.mgrid[:height, :width, :channels]
    waves = numpy.sin(y / 7 + c * random.random() * 6) + numpy.cos(x / 5 + random.random() * 6)
    return (waves * 60 + 128 + numpy.array(random.choices(range(-8, 9), k=waves.size)).reshape(waves.shape)).clip(0, 255).astype("uint8")


class Jpeg(ReaderTest):
    def setUp(self):
        self.random = random.Random(21)

    def encoded(self, pixels, **options):
        file = io.BytesIO()
        PIL.Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels).save(file, "JPEG", **options)
        return file.getvalue()

    def compare(self, content):
        grey = PIL.Image.open(io.BytesIO(content))
        grey.draft("L", grey.size)
        self.assert_near(self.pixels("rgb", content), shown(content), ROUNDING)
        self.assert_near(self.pixels("grey", content)[..., 0], grey.convert("L"), ROUNDING)

    def test_pixels_of_every_kind_are_those_that_pillow_reads(self):
        kinds = [{}, {"progressive": True}, {"quality": 30}, {"quality": 100, "optimize": True}, {"restart_marker_blocks": 3}]
        for size in SIZES:
            for channels, samplings in ((1, [None]), (3, ["4:4:4", "4:2:2", "4:2:0", "4:1:1"])):
                pixels = soft_noise(self.random, *size, channels)
                for sampling in samplings:
                    for kind in kinds:
                        with self.subTest(size=size, channels=channels, sampling=sampling, kind=kind):
                            self.compare(self.encoded(pixels, **kind, **({"subsampling": sampling} if sampling else {})))

    def test_colours_that_are_stored_as_they_are(self):
        self.compare(self.encoded(soft_noise(self.random, 20, 30, 3), keep_rgb=True))

    def test_a_part_of_a_picture_is_that_part_of_all_of_it(self):
        """Only what is needed is decoded; not one pixel may show it."""
        pixels = soft_noise(self.random, 150, 203, 3)
        for sampling in ("4:4:4", "4:2:2", "4:2:0", "4:1:1"):
            for progressive in (False, True):
                content = self.encoded(pixels, subsampling=sampling, progressive=progressive)
                whole = self.pixels("rgb", content)
                for _ in range(25):
                    top, left = self.random.randrange(150), self.random.randrange(203)
                    height, width = self.random.randint(1, 150 - top), self.random.randint(1, 203 - left)
                    with self.subTest(sampling=sampling, progressive=progressive, box=(top, left, height, width)):
                        self.assert_near(self.pixels("part", content, top, left, height, width), whole[top:top + height, left:left + width])

    def test_cmyk_is_what_pillow_makes_of_it(self):
        pixels = soft_noise(self.random, 40, 33, 4)
        for options in ({"quality": 100}, {"quality": 90, "progressive": True}):
            file = io.BytesIO()
            PIL.Image.fromarray(pixels, "CMYK").save(file, "JPEG", **options)
            self.assert_near(self.pixels("rgb", file.getvalue()), shown(file.getvalue()), ROUNDING)
            self.assert_near(self.pixels("grey", file.getvalue())[..., 0], PIL.Image.open(file).convert("L"), ROUNDING)

    def test_webp_is_what_pillow_reads(self):
        pixels = soft_noise(self.random, 37, 52, 3)
        alpha = numpy.concatenate([pixels, pixels[..., :1]], 2)
        for array, options in ((pixels, {"lossless": True}), (pixels, {"quality": 80}), (alpha, {"lossless": True, "exact": True})):
            file = io.BytesIO()
            PIL.Image.fromarray(array).save(file, "WEBP", **options)
            with self.subTest(channels=array.shape[2], **options):
                self.assert_near(self.pixels("rgb", file.getvalue()), shown(file.getvalue()), ROUNDING)
                self.assertIn("is a damaged WebP", self.refusal("rgb", file.getvalue()[:-9]) or "it was taken")
        file = io.BytesIO()
        PIL.Image.fromarray(pixels).save(file, "WEBP", save_all=True, append_images=[PIL.Image.fromarray(pixels[::-1])])
        self.assertIn("is an animated WebP", self.refusal("rgb", file.getvalue()))

    def test_odd_files_are_taken_or_refused_as_pillow_does(self):
        good = self.encoded(soft_noise(self.random, 40, 40, 3))
        files = {
            "good": good,
            "bytes after the end": good + b"more",
            "cut within the data": good[:len(good) // 2],
            "cut within the header": good[:100],
            "a comment": good[:2] + b"\xff\xfe\0\7hello" + good[2:],
            "filling bytes before a marker": good[:2] + b"\xff\xff\xff" + good[2:],
            "no tables": good[:2] + good[good.index(b"\xff\xc0"):],
            "12 bits": good.replace(b"\xff\xc0\0\x11\x08", b"\xff\xc0\0\x11\x0c"),
        }
        for name, content in files.items():
            with self.subTest(name):
                if self.assert_same_verdict("rgb", content, lambda content: PIL.Image.open(io.BytesIO(content)).load()):
                    self.compare(content)


CODES = {3: "H", 4: "L"}


def tiff(value, kind=3, order="<", count=1, before=b""):
    """Exif data with one orientation, after other entries."""
    body = struct.pack(order + CODES[kind] * count, *[value] * count)
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HLH", 42, 8, 2 if before else 1)
    return head + before + struct.pack(order + "HHL", 0x112, kind, count) + body.ljust(4, b"\0") + b"\0" * 4


def picture():
    y, x, c = numpy.mgrid[:5, :9, :3]
    return PIL.Image.fromarray((x * 20 + y * 7 + c * 60).astype("uint8"))


def saved(kind, **options):
    file = io.BytesIO()
    picture().save(file, kind, **options)
    return file.getvalue()


def jpeg(*markers):
    plain = saved("JPEG", quality=95, subsampling=0)
    return plain[:2] + b"".join(b"\xff\xe1" + struct.pack(">H", len(one) + 2) + one for one in markers) + plain[2:]


def png(*early, late=()):
    """With chunks eXIf before and after the pixels."""
    plain = saved("PNG")
    at = plain.index(b"IDAT") - 4
    early, late = (b"".join(png_writer.chunk(b"eXIf", one) for one in chunks) for chunks in (early, late))
    return plain[:at] + early + plain[at:-12] + late + plain[-12:]


def webp(exif):
    return saved("WEBP", lossless=True, exif=exif)


class Orientation(ReaderTest):
    def compare(self, content):
        found, rounding = self.pixels("rgb", content), 2 if content[:2] == b"\xff\xd8" else 0
        self.assert_near(found, shown(content), rounding)
        self.assert_near(self.pixels("part", content, 1, 2, 3, 3), found[1:4, 2:5])

    def compare_all(self, exif):
        for content in (jpeg(b"Exif\0\0" + exif), png(exif), webp(exif)):
            with self.subTest(exif, kind=content[:4]):
                self.compare(content)

    def test_every_value_turns_as_pillow_turns_it(self):
        for value in (0, *range(1, 10), 65535):
            self.compare_all(tiff(value))

    def test_it_is_found_in_every_form(self):
        for order in "<>":
            for kind in CODES:
                self.compare_all(tiff(6, kind, order))
            self.compare_all(tiff(6, 3, order, count=2))
            self.compare_all(tiff(6, 3, order, before=struct.pack(order + "HHLL", 0x10F, 2, 4, 0x41414141)))
            self.compare_all(tiff(6, 3, order, before=struct.pack(order + "HHLL", 0x112, 99, 1, 7)))  # of no type
        self.compare_all(tiff(6)[:-6])
        self.compare_all(tiff(6).replace(b"\x12\x01", b"\x13\x01"))

    def test_it_is_found_in_every_place_of_a_jpeg(self):
        exif, name = tiff(6), b"Exif\0\0"
        for markers in ((name + exif[:20], name + exif[20:]), (name + exif[:7], name + exif[7:15], name + exif[15:]),
                        (b"http://ns.adobe.com/xap/1.0/\0<x/>", name + exif), (name + name + exif,), (name,), (b"Exif\0" + exif,),
                        (name + exif, name + tiff(3))):
            with self.subTest(markers):
                self.compare(jpeg(*markers))

    def test_it_is_found_in_every_place_of_a_png(self):
        exif = tiff(6)
        for early, late in (([exif], []), ([], [exif]), ([exif], [tiff(3)]), ([b"Exif\0\0" + exif], [])):
            with self.subTest(early=early, late=late):
                self.compare(png(*early, late=late))


if __name__ == "__main__":
    unittest.main()

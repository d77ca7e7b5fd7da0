# SPDX-License-Identifier: MIT
"""Pictures as they are shown, against Pillow: what exif_transpose finds of Exif data in JPEG, PNG and WebP."""

import io
import struct
import unittest

import png_writer
from readers import ReaderTest, main

try:
    import numpy
    import PIL.Image
    import PIL.ImageOps
    MISSING = None
except ImportError as error:
    MISSING = error.name

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
        with PIL.Image.open(io.BytesIO(content)) as opened:
            shown = numpy.asarray(PIL.ImageOps.exif_transpose(opened).convert("RGB")).astype(int)
        one = self.read("rgb", content)
        found = numpy.frombuffer(bytes.fromhex(one["data"]), numpy.uint8).reshape(one["shape"]).astype(int)
        self.assertEqual(found.shape, shown.shape)
        self.assertLessEqual(numpy.abs(found - shown).max(), 2 if content[:2] == b"\xff\xd8" else 0)

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
    main(MISSING)

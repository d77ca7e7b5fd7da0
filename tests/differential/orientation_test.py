# SPDX-License-Identifier: MIT
"""Pictures as they are shown, and bitmaps, against Pillow: what exif_transpose finds in all its places, and BMP and PNM of every kind."""

import io
import random
import struct
import unittest
import zlib

import png_writer
from readers import ReaderTest, main

try:
    import numpy
    import PIL.Image
    import PIL.ImageOps
    MISSING = None
except ImportError as error:
    MISSING = error.name

XAP = b"http://ns.adobe.com/xap/1.0/\0"
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 11: 4, 12: 8, 13: 4, 16: 8}
CODES = {1: "B", 2: "B", 3: "H", 4: "L", 6: "b", 7: "B", 8: "h", 9: "l", 11: "f", 12: "d", 13: "L", 16: "Q"}


def tiff(value, kind=3, order="<", count=1, before=b"", entries=1):
    """Exif data with one orientation, after other entries."""
    body = struct.pack(order + "LL", value, 1) if kind == 5 else struct.pack(order + CODES[kind] * count, *[value] * count)
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HLH", 42, 8, entries + (1 if before else 0))
    place = len(head) + len(before) + 12 + 4
    inline = body.ljust(4, b"\0") if len(body) <= 4 else struct.pack(order + "L", place)
    return head + before + struct.pack(order + "HHL", 0x112, kind, count) + inline + b"\0" * 4 + (body if len(body) > 4 else b"")


def attribute(value, quote='"'):
    return f'<x:xmpmeta><rdf:Description tiff:Orientation={quote}{value}{quote}/></x:xmpmeta>'.encode()


def element(value):
    return f"<x:xmpmeta><tiff:Orientation>{value}</tiff:Orientation></x:xmpmeta>".encode()


def raw_profile(exif):
    return b"\nexif\n%8d\n" % len(exif) + "\n".join(exif.hex()[at:at + 72] for at in range(0, len(exif.hex()), 72)).encode() + b"\n"


def picture():
    y, x, c = numpy.mgrid[:5, :9, :3]
    return PIL.Image.fromarray((x * 20 + y * 7 + c * 60).astype("uint8"))


def saved(kind, **options):
    file = io.BytesIO()
    picture().save(file, kind, **options)
    return file.getvalue()


class Pictures(ReaderTest):
    def decoded(self, reader, content):
        one = self.read(reader, content)
        return numpy.frombuffer(bytes.fromhex(one["data"]), numpy.uint8).reshape(one["shape"]).astype(int)

    def expected(self, content):
        with PIL.Image.open(io.BytesIO(content)) as opened:
            return PIL.ImageOps.exif_transpose(opened).convert("RGB")

    def compare(self, content, most=0):
        shown = self.expected(content)
        found = self.decoded("rgb", content)
        self.assertEqual(found.shape, numpy.asarray(shown).shape)
        self.assertLessEqual(numpy.abs(found - numpy.asarray(shown).astype(int)).max(), most)

    def compare_refusal(self, content):
        """Both take it, and see the same, or both refuse."""
        try:
            self.expected(content)
        except Exception:  # Pillow has many of them
            self.assertIsNotNone(self.refusal("rgb", content))
        else:
            self.compare(content)


class Orientation(Pictures):
    def jpeg(self, *markers):
        plain = saved("JPEG", quality=95, subsampling=0)
        return plain[:2] + b"".join(b"\xff\xe1" + struct.pack(">H", len(one) + 2) + one for one in markers) + plain[2:]

    def png(self, *chunks, late=()):
        plain = saved("PNG")
        at = plain.index(b"IDAT") - 4
        return (plain[:at] + b"".join(png_writer.chunk(*one) for one in chunks) + plain[at:-12] +
                b"".join(png_writer.chunk(*one) for one in late) + plain[-12:])

    def webp(self, exif=None, xmp=None):
        return saved("WEBP", lossless=True, **({"exif": exif} if exif else {}), **({"xmp": xmp} if xmp else {}))

    def sources(self, value):
        """Exif data of every type and order, and XMP texts."""
        for order in "<>":
            for kind in CODES:
                yield f"exif of type {kind} {order}", tiff(value, kind, order), None
            yield f"two values {order}", tiff(value, 3, order, count=2), None
            yield f"three values {order}", tiff(value, 3, order, count=3), None
            other = struct.pack(order + "HHLL", 0x10F, 2, 4, 0x41414141)
            yield f"after another {order}", tiff(value, 3, order, before=other), None
            unknown = struct.pack(order + "HHLL", 0x112, 99, 1, 7)
            yield f"after one of no type {order}", tiff(value, 3, order, before=unknown), None
        yield "a fraction", tiff(value, 5), None
        yield "cut short", tiff(value)[:-6], attribute(3)
        for xmp in (attribute(value), element(value), attribute(value, "'"), attribute("x") + element(value), attribute(17)):
            yield f"xmp {xmp!r}", None, xmp
        yield "both", tiff(value), attribute(8)
        yield "exif without one", tiff(value).replace(b"\x12\x01", b"\x13\x01"), attribute(value)
        yield "exif that is no number", tiff(value, 1), attribute(5)

    def test_every_value_turns_as_pillow_turns_it(self):
        for value in (0, *range(1, 10), 65535):
            for content in (self.jpeg(b"Exif\0\0" + tiff(value)), self.png((b"eXIf", tiff(value))), self.webp(tiff(value))):
                with self.subTest(value=value, kind=content[:4]):
                    self.compare(content, most=2 if content[:2] == b"\xff\xd8" else 0)

    def test_it_is_found_in_every_form(self):
        for name, exif, xmp in self.sources(6):
            jpeg = self.jpeg(*([b"Exif\0\0" + exif] if exif else []), *([XAP + xmp] if xmp else []))
            png = self.png(*([(b"eXIf", exif)] if exif else []),
                           *([(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp)] if xmp else []))
            for content, most in ((jpeg, 2), (png, 0), (self.webp(exif, xmp), 0)):
                with self.subTest(name, kind=content[:4]):
                    self.compare(content, most)

    def test_it_is_found_in_every_place_of_a_jpeg(self):
        exif, name = tiff(6), b"Exif\0\0"
        for number, markers in enumerate([
                (name + exif[:20], name + exif[20:]), (name + exif[:7], name + exif[7:15], name + exif[15:]),
                (XAP + attribute(8), name + exif), (XAP + attribute(8), XAP + attribute(3)), (XAP + b"<x/>", XAP + element(5)),
                (XAP + attribute(5), XAP + b"<x/>"), (name + name + exif,), (name,), (b"Exif\0" + exif,), (name + exif, name + tiff(3))]):
            with self.subTest(number):
                self.compare(self.jpeg(*markers), most=2)

    def test_it_is_found_in_every_place_of_a_png(self):
        exif, xmp, key, hexed = tiff(6), attribute(6), b"XML:com.adobe.xmp", b"Raw profile type exif\0"
        profile = raw_profile(exif)
        for number, (early, late) in enumerate([
                ([(b"tEXt", hexed + profile)], []), ([(b"zTXt", hexed + b"\0" + zlib.compress(profile))], []),
                ([(b"tEXt", hexed + raw_profile(b"Exif\0\0" + exif))], []), ([(b"iTXt", hexed + b"\0\0\0\0" + profile)], []),
                ([(b"iTXt", key + b"\0\0\0en\0name\0" + xmp)], []), ([(b"iTXt", key + b"\0\1\0\0\0" + zlib.compress(xmp))], []),
                ([(b"tEXt", key + b"\0" + xmp)], []), ([(b"zTXt", key + b"\0\0" + zlib.compress(xmp))], []),
                ([(b"tEXt", b"exif\0" + exif)], []), ([], [(b"eXIf", exif)]), ([], [(b"tEXt", hexed + profile)]),
                ([], [(b"iTXt", key + b"\0\0\0\0\0" + xmp)]), ([(b"eXIf", exif)], [(b"eXIf", tiff(3))]),
                ([(b"eXIf", tiff(3)), (b"tEXt", hexed + profile)], []), ([(b"eXIf", b"Exif\0\0" + exif)], []),
                ([(b"tEXt", b"other\0" + profile)], []), ([(b"iTXt", key + b"\0")], []), ([(b"zTXt", hexed + b"\0damaged")], [])]):
            with self.subTest(number):
                self.compare(self.png(*early, late=late))


class Bitmaps(Pictures):
    def bmp(self, bits, rows, header=40, compression=0, palette=(), masks=b"", top=False, colours=None, size=(6, 5)):
        width, height = size
        extra = masks if header == 40 else b""
        if header == 12:
            head = struct.pack("<LHHHH", 12, width, height, 1, bits)
        else:
            head = struct.pack("<LllHHLLllLL", header, width, -height if top else height, 1, bits, compression, len(rows), 0, 0,
                               len(palette) if colours is None else colours, 0)
            head += (masks if header > 40 else b"").ljust(header - 40, b"\0")
        table = b"".join(bytes(one) + (b"" if header == 12 else b"\0") for one in palette)
        offset = 14 + len(head) + len(extra) + len(table)
        return struct.pack("<2sLLL", b"BM", offset + len(rows), 0, offset) + head + extra + table + rows

    def rows(self, bits, width=6, height=5, below=256):
        stride = (width * bits + 31) // 32 * 4
        return b"".join(bytes(self.random.randrange(below) for _ in range((width * bits + 7) // 8)).ljust(stride, b"\0") for _ in range(height))

    def setUp(self):
        self.random = random.Random(4)
        self.colours = [[self.random.randrange(256) for _ in range(3)] for _ in range(256)]

    def test_bitmaps_are_those_that_pillow_reads(self):
        for header in (12, 40, 52, 56, 64, 108, 124):
            for top in (False, True)[:1 if header == 12 else 2]:
                for bits in (1, 4, 8, 16, 24, 32):
                    palette = self.colours[:1 << bits] if bits <= 8 else ()
                    with self.subTest(header=header, bits=bits, top=top):
                        self.compare(self.bmp(bits, self.rows(bits), header, palette=palette, top=top))
        for kind in ("1", "L", "P", "RGB", "RGBA"):
            file = io.BytesIO()
            picture().convert(kind).save(file, "BMP")
            self.compare(file.getvalue())
            self.compare_refusal(file.getvalue()[:-3])
        self.compare(self.bmp(8, self.rows(8, below=9), palette=self.colours[:9]))
        self.compare(self.bmp(8, self.rows(8), palette=self.colours[:9]))  # numbers that have no colour
        self.compare(self.bmp(8, self.rows(8), palette=[[i, i, i] for i in range(256)]))

    def test_masks_say_where_the_colours_are(self):
        for bits, known in ((16, [(0xF800, 0x7E0, 0x1F), (0x7C00, 0x3E0, 0x1F), (0xF00, 0xF0, 0xF)]), (24, [(0xFF0000, 0xFF00, 0xFF)]),
                            (32, [(0xFF0000, 0xFF00, 0xFF), (0xFF000000, 0xFF0000, 0xFF00), (0xFF000000, 0xFF00, 0xFF), (0xFF, 0xFF00, 0xFF0000),
                                  (0, 0, 0), (0x3FF, 0xFFC00, 0x3FF00000)])):
            for masks in known:
                for header in (40, 52, 56, 108, 124):
                    for alpha in (0, 0xFF000000, 0xFF):
                        with self.subTest(bits=bits, masks=masks, header=header, alpha=alpha):
                            content = self.bmp(bits, self.rows(bits), header, 3, masks=struct.pack("<LLLL", *masks, alpha)[:12 if header < 56 else 16])
                            try:
                                self.expected(content)
                            except OSError:
                                continue  # of which Pillow reads fewer
                            self.compare(content)

    def test_runs_are_those_that_pillow_reads(self):
        for bits, compression in ((8, 1), (4, 2)):
            palette = self.colours[:1 << bits]
            for runs in (b"\6\x12\0\0" * 5 + b"\0\1", b"\3\1\3\2\0\0" * 5 + b"\0\1", b"\0\5\1\2\3\4\5\0\1\7\0\0" * 5 + b"\0\1", b"\0\2\2\1" + b"\6\3\0\0" * 4,
                         b"\x09\3\0\0" * 5, b"\2\5\0\0" * 5, b"\6\1" * 5, b"\0\1", b"\6\1", b"\0\6" + bytes(range(6)), b"\0\2\3", b"\0"):
                with self.subTest(bits=bits, runs=runs):
                    self.compare_refusal(self.bmp(bits, runs, compression=compression, palette=palette))
            for _ in range(200):
                runs = bytes(self.random.choice((0, 0, 1, 2, 3, 4, 6, 9)) for _ in range(self.random.randrange(4, 60)))
                with self.subTest(bits=bits, runs=runs):
                    self.compare_refusal(self.bmp(bits, runs, compression=compression, palette=palette))

    def test_netpbm_pictures_are_those_that_pillow_reads(self):
        texts = {b"P1": b"0 1 1 0 1 0", b"P2": b"1 0 2 3 # a comment\n 3 1", b"P3": b"1 2 3 " * 6}
        for kind in (b"P1", b"P2", b"P3", b"P4", b"P5", b"P6"):
            for greatest in (1, 3, 100, 255, 256, 1000, 65535):
                grey = kind in (b"P2", b"P5")
                if grey and greatest > 255:
                    continue  # which Pillow clips to white
                head = kind + b"\n# made here\n3 2" + (b"" if kind in (b"P1", b"P4") else b"\n%d" % greatest) + b"\n"
                numbers = 6 * (1 if kind in (b"P2", b"P5") else 3)
                body = texts.get(kind) or (b"\x5a\xa5" if kind == b"P4" else
                                           bytes(self.random.randrange(256 if greatest > 255 else greatest + 1) for _ in range(numbers * (2 if greatest > 255 else 1))))
                with self.subTest(kind=kind, greatest=greatest):
                    self.compare_refusal(head + body)
                    self.compare_refusal(head + body[:-1])
                    self.compare_refusal(head + body + b" 1 ")
        for odd in (b"P5 2 1 0\nab", b"P5 0 1 255\n", b"P5 2 1 70000\nab", b"P2 2 1 9\n10 1", b"P5#c\n2 1 255\nab", b"P5 2#c\n1 1 255 " + bytes(21), b"P5 x 1 255\n", b"P1 2 1 2 0",
                    b"P5 2 1 25599999999\nab"):
            with self.subTest(odd):
                self.compare_refusal(odd)


if __name__ == "__main__":
    main(MISSING)

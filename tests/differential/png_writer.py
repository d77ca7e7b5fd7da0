# SPDX-License-Identifier: MIT
"""Writes PNG files of every kind, those too that libraries read and do not write: small, of noise, each row with another filter."""

import struct
import zlib

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
DEPTHS = {GREY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GREY_ALPHA: (8, 16), RGBA: (8, 16)}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]  # x, y, and their steps


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def packed(samples, depth):
    """A row's samples as bytes, the first one in the highest bits."""
    if depth == 16:
        return struct.pack(f">{len(samples)}H", *samples)
    bits = "".join(f"{sample:0{depth}b}" for sample in samples)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def paeth(left, up, corner):
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))


def filtered(row, above, step, kind):
    """A row as one of the five filters leaves it; `step` bytes make a pixel."""
    left = bytes(step) + row[:-step] if len(row) >= step else bytes(len(row))
    corner = bytes(step) + above[:-step] if len(row) >= step else bytes(len(row))
    guesses = {0: lambda a, b, c: 0, 1: lambda a, b, c: a, 2: lambda a, b, c: b, 3: lambda a, b, c: (a + b) // 2, 4: paeth}
    guess = guesses[kind]
    return bytes([kind]) + bytes((x - guess(a, b, c)) & 255 for x, a, b, c in zip(row, left, above, corner))


def scanlines(pixels, kind, depth, filters):
    """The rows of one picture, or of one of the seven of an interlaced one; `pixels`: lists of tuples."""
    step = max(1, CHANNELS[kind] * depth // 8)
    lines, above = b"", None
    for pixel_row in pixels:
        row = packed([sample for pixel in pixel_row for sample in pixel], depth)
        lines += filtered(row, above or bytes(len(row)), step, filters.randrange(5))
        above = row
    return lines


def png(pixels, kind, depth, random, interlaced=False, chunks=(), palette=b"", transparency=None):
    """A file. `pixels`: rows of tuples of samples; `transparency`: a tRNS chunk's content; `chunks`: what else stands before."""
    height, width = len(pixels), len(pixels[0])
    header = struct.pack(">2I5B", width, height, depth, kind, 0, 0, int(interlaced))
    if interlaced:
        parts = [[row[x::dx] for row in pixels[y::dy]] for x, y, dx, dy in ADAM7]
        data = b"".join(scanlines(part, kind, depth, random) for part in parts if part and part[0])
    else:
        data = scanlines(pixels, kind, depth, random)
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunk(*one) for one in chunks)
    if palette:
        file += chunk(b"PLTE", palette)
    if transparency is not None:
        file += chunk(b"tRNS", transparency)
    return file + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")

# SPDX-License-Identifier: MIT
"""JPEG and WebP files as the dataset image_folder decodes them against Pillow: grey and colours, sequential and progressive, every sampling.

Two builds of one library may round differently. Of a picture in colours our grey is the file's own brightness, which Pillow gives
where it is asked before it decodes (draft); Image.convert("L") mixes it anew from colours that have been clipped.
"""

import io
import random
import unittest

from readers import ReaderTest, main

try:
    import numpy
    import PIL.Image
    import PIL.ImageOps
    MISSING = None
except ImportError as error:
    MISSING = error.name

SIZES = [(1, 1), (7, 9), (8, 8), (16, 33), (61, 40)]
ROUNDING = 2


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

    def decoded(self, reader, content):
        one = self.read(reader, content)
        return numpy.frombuffer(bytes.fromhex(one["data"]), numpy.uint8).reshape(one["shape"]).astype(int)

    def compare(self, content):
        colour = numpy.asarray(PIL.Image.open(io.BytesIO(content)).convert("RGB"))
        grey = PIL.Image.open(io.BytesIO(content))
        grey.draft("L", grey.size)
        found = self.decoded("rgb", content)
        self.assertEqual(found.shape, colour.shape)
        self.assertLessEqual(numpy.abs(found - colour).max(), ROUNDING)
        self.assertLessEqual(numpy.abs(self.decoded("grey", content)[..., 0] - numpy.asarray(grey.convert("L"))).max(), ROUNDING)

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
                whole = self.decoded("rgb", content)
                for _ in range(25):
                    top, left = self.random.randrange(150), self.random.randrange(203)
                    height, width = self.random.randint(1, 150 - top), self.random.randint(1, 203 - left)
                    with self.subTest(sampling=sampling, progressive=progressive, box=(top, left, height, width)):
                        part = self.read("part", content, *map(str, (top, left, height, width)))
                        found = numpy.frombuffer(bytes.fromhex(part["data"]), numpy.uint8).reshape(part["shape"])
                        numpy.testing.assert_array_equal(found, whole[top:top + height, left:left + width])

    def test_cmyk_is_what_pillow_makes_of_it(self):
        pixels = soft_noise(self.random, 40, 33, 4)
        for options in ({"quality": 100}, {"quality": 90, "progressive": True}):
            file = io.BytesIO()
            PIL.Image.fromarray(pixels, "CMYK").save(file, "JPEG", **options)
            colour = numpy.asarray(PIL.Image.open(file).convert("RGB")).astype(int)
            self.assertLessEqual(numpy.abs(self.decoded("rgb", file.getvalue()) - colour).max(), ROUNDING)
            grey = numpy.asarray(PIL.Image.open(file).convert("L")).astype(int)
            self.assertLessEqual(numpy.abs(self.decoded("grey", file.getvalue())[..., 0] - grey).max(), ROUNDING)

    def test_pictures_are_turned_as_pillow_turns_them(self):
        pixels = soft_noise(self.random, 21, 34, 3)
        for kind in ("JPEG", "PNG", "WEBP"):
            for orientation in range(10):
                exif = PIL.Image.Exif()
                exif[0x112] = orientation
                file = io.BytesIO()
                PIL.Image.fromarray(pixels).save(file, kind, exif=exif)
                expected = numpy.asarray(PIL.ImageOps.exif_transpose(PIL.Image.open(file)).convert("RGB")).astype(int)
                with self.subTest(kind=kind, orientation=orientation):
                    found = self.decoded("rgb", file.getvalue())
                    self.assertEqual(found.shape, expected.shape)
                    self.assertLessEqual(numpy.abs(found - expected).max(), ROUNDING)
                    part = self.read("part", file.getvalue(), "3", "5", "12", "9")
                    part = numpy.frombuffer(bytes.fromhex(part["data"]), numpy.uint8).reshape(part["shape"])
                    numpy.testing.assert_array_equal(part, found[3:15, 5:14])

    def test_webp_is_what_pillow_reads(self):
        pixels = soft_noise(self.random, 37, 52, 3)
        alpha = numpy.concatenate([pixels, pixels[..., :1]], 2)
        for array, options in ((pixels, {"lossless": True}), (pixels, {"quality": 80}), (alpha, {"lossless": True, "exact": True})):
            file = io.BytesIO()
            PIL.Image.fromarray(array).save(file, "WEBP", **options)
            expected = numpy.asarray(PIL.Image.open(file).convert("RGB")).astype(int)
            with self.subTest(channels=array.shape[2], **options):
                self.assertLessEqual(numpy.abs(self.decoded("rgb", file.getvalue()) - expected).max(), ROUNDING)
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
                ours, theirs = self.refusal("rgb", content), None
                try:
                    PIL.Image.open(io.BytesIO(content)).load()
                except Exception as error:  # Pillow has many of them
                    theirs = error
                self.assertEqual(ours is None, theirs is None, f"ours: {ours}, Pillow's: {theirs}")
                if ours is None:
                    self.compare(content)


if __name__ == "__main__":
    main(MISSING)

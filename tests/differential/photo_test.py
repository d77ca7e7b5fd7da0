# SPDX-License-Identifier: MIT
"""What image_folder makes of photographs for training against torchvision on Pillow's pictures.

Pixels with the parameters fixed: at most 1 of 255 apart, as sums are rounded in another place. Hue is the exception: Pillow turns
it in 8 bits and back. The random parameters by the distributions of many draws (two samples, Kolmogorov and Smirnov).
"""

import io
import math
import unittest

from readers import NIGHTLY, ReaderTest, require, use_peers

use_peers()
require("numpy", "PIL.Image", "torch", "torchvision")
import numpy  # noqa: E402
import PIL.Image  # noqa: E402
import torch  # noqa: E402
from torchvision import transforms  # noqa: E402
from torchvision.transforms import InterpolationMode, autoaugment, functional  # noqa: E402

BILINEAR = InterpolationMode.BILINEAR
DRAWS = 10_000 if NIGHTLY else 1200


def photo(height, width, seed=3):
    """Soft waves and some grain."""
    draws = numpy.random.default_rng(seed)
    y, x, c = numpy.mgrid[:height, :width, :3]
    waves = numpy.sin(y / 17 + 2 * c) * 60 + numpy.cos(x / 23 - c) * 50 + 120 + draws.integers(-12, 13, (height, width, 3))
    return PIL.Image.fromarray(waves.clip(0, 255).astype("uint8"))


def encoded(picture, kind="PNG", **options):
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


class Photo(ReaderTest):
    def setUp(self):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        self.picture = photo(61, 83)

    def assert_changes(self, name, expected, *numbers, most=1):
        for picture in (self.picture, PIL.Image.new("RGB", (7, 5), (9, 90, 200))):
            with self.subTest(name=name, numbers=numbers, size=picture.size):
                self.assert_near(self.pixels("change", encoded(picture), name, *numbers), expected(picture, *numbers), most)

    def assert_same_distribution(self, ours, theirs):
        """For each number of a draw; by chance this fails once in 10,000 times, but the draws are always the same."""
        for mine, other in zip(numpy.array(ours, float).T, numpy.array(theirs, float).T, strict=True):
            both = numpy.concatenate([mine, other])
            places = [numpy.searchsorted(numpy.sort(one), both, side="right") / len(one) for one in (mine, other)]
            bound = math.sqrt(-math.log(1e-4 / 2) / 2) * math.sqrt((len(mine) + len(other)) / (len(mine) * len(other)))
            self.assertLess(numpy.abs(places[0] - places[1]).max(), bound)

    def test_colours_change_as_pillow_changes_them(self):
        for factor in (0, 0.3, 0.99, 1.4, 1.99):
            self.assert_changes("brightness", functional.adjust_brightness, factor, most=0)
            self.assert_changes("contrast", functional.adjust_contrast, factor, most=0)
            self.assert_changes("saturation", functional.adjust_saturation, factor)
            self.assert_changes("sharpness", functional.adjust_sharpness, factor)
        for bits in range(1, 9):
            self.assert_changes("posterize", functional.posterize, bits, most=0)
        for threshold in (0, 8.5, 127.5, 255):
            self.assert_changes("solarize", functional.solarize, threshold, most=0)
        self.assert_changes("autocontrast", lambda picture: functional.autocontrast(picture), most=0)
        self.assert_changes("equalize", lambda picture: functional.equalize(picture), most=0)

    def test_hue_is_nearer_to_exact_colours_than_pillow(self):
        def exact(picture, part):
            return functional.adjust_hue(functional.pil_to_tensor(picture), part).permute(1, 2, 0).numpy()

        for part in (-0.5, -0.2, 0.01, 0.1, 0.35):
            self.assert_changes("hue", exact, part)
            self.assert_changes("hue", functional.adjust_hue, part, most=12)

    def test_pictures_move_as_pillow_moves_them(self):
        for degrees in (-135, -30, 0.5, 10, 90):
            self.assert_changes("rotate", lambda picture, angle: functional.rotate(picture, angle, BILINEAR), degrees)
        for shear in (-0.99, 0.3):
            def sheared(picture, *_, angle=math.degrees(math.atan(shear))):
                return functional.affine(picture, 0.0, [0, 0], 1.0, [angle, 0.0], BILINEAR, center=[0, 0])
            self.assert_changes("affine", sheared, 1, shear, 0, 0, 1, 0)
        self.assert_changes("affine", lambda picture, *_: functional.affine(picture, 0.0, [0, 13], 1.0, [0.0, 0.0], BILINEAR),
                            1, 0, 0, 0, 1, -13)

    def test_parts_are_resized_as_pillow_resizes_them(self):
        for box in ((3, 5, 50, 60), (0, 0, 61, 83), (20, 30, 9, 7)):
            expected = functional.resized_crop(self.picture, *box, [24, 24], BILINEAR)
            self.assert_near(self.pixels("resized", encoded(self.picture), *box, 24), expected, 1)

    def test_a_large_jpeg_that_is_halved_on_the_way_looks_the_same(self):
        picture, box = photo(900, 1200), (102, 204, 700, 900)
        content = encoded(picture, "JPEG", quality=95)
        expected = numpy.asarray(functional.resized_crop(PIL.Image.open(io.BytesIO(content)), *box, [96, 96], BILINEAR)).astype(int)
        found = self.pixels("resized", content, *box, 96)
        self.assertLess(numpy.abs(found - expected).mean(), 1)
        self.assertLessEqual(numpy.abs(found - expected).max(), 6)

    def test_random_parts_have_torchvisions_distribution(self):
        for size, scale in (((375, 500), (0.08, 1.0)), ((500, 100), (0.3, 1.0)), ((20, 30), (0.5, 0.9))):
            picture = PIL.Image.new("RGB", size[::-1])
            ours = self.read("boxes", encoded(picture), str(DRAWS * 4), *map(str, scale))
            theirs = [transforms.RandomResizedCrop.get_params(picture, scale, (3 / 4, 4 / 3)) for _ in range(DRAWS * 4)]
            with self.subTest(size=size):
                self.assert_same_distribution(ours, theirs)

    def test_random_changes_have_torchvisions_distribution(self):
        picture = photo(40, 48)
        ways = {
            ("color_jitter", 0.4, 0, 0, 0): transforms.ColorJitter(brightness=0.4),
            ("color_jitter", 0, 1.5, 0, 0): transforms.ColorJitter(contrast=1.5),
            ("color_jitter", 0, 0, 0.7, 0): transforms.ColorJitter(saturation=0.7),
            ("color_jitter", 0, 0, 0, 0.2): transforms.ColorJitter(hue=0.2),
            ("color_jitter", 0.4, 0.4, 0.4, 0.1): transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
            ("rotation", 20): transforms.RandomRotation(20, BILINEAR),
            ("trivial_augment",): autoaugment.TrivialAugmentWide(interpolation=BILINEAR),
        }
        corner = PIL.Image.fromarray(numpy.pad(numpy.full((14, 9, 3), 255, "uint8"), ((0, 26), (0, 39), (0, 0))))
        for words, way in ways.items():
            if words[0] == "rotation":
                picture = corner  # the part that is lost shows the angle
            elif words[0] == "trivial_augment":
                picture = photo(40, 48)
            ours = self.read("augmented", encoded(picture), str(DRAWS), *map(str, words))
            exact = functional.pil_to_tensor(picture) if words[0] == "color_jitter" and words[4] else picture
            theirs = [numpy.asarray(way(exact)) for _ in range(DRAWS)]
            axes = (1, 2) if exact is not picture else (0, 1)
            with self.subTest(words):
                self.assert_same_distribution(ours, [one.mean(axes) for one in theirs])

    def test_erased_rectangles_have_torchvisions_distribution(self):
        ones = torch.ones(1, 48, 64)
        way = transforms.RandomErasing(p=0.6)
        theirs = []
        for _ in range(DRAWS):
            gone = way(ones)[0] == 0
            theirs.append((int(gone.any(1).sum()), int(gone.any(0).sum())))
        self.assert_same_distribution(self.read("erased", encoded(PIL.Image.new("RGB", (64, 48))), str(DRAWS), "0.6"), theirs)


if __name__ == "__main__":
    unittest.main()

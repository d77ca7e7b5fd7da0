"""JPEG files that cost what photographs cost: 500 x 375, waves of every length as nature has them, and a camera's grain."""

SIZE = (375, 500)
QUALITY = 86  # 108 kB, about as much as ImageNet's


def lay_out(folder, count=256, classes=4):
    """Writes the files into a folder for each class and returns the folder of these."""
    import numpy
    import PIL.Image

    draws = numpy.random.default_rng(1)
    y, x = numpy.meshgrid(*(numpy.fft.fftfreq(side) for side in SIZE), indexing="ij")
    falloff = 1 / numpy.maximum(numpy.hypot(y, x), 1 / max(SIZE))  # 1/f: Field, "Relations between the statistics of natural images", 1987
    for number in range(count):
        noise = numpy.fft.fft2(draws.standard_normal((3, *SIZE))) * falloff
        waves = numpy.fft.ifft2(noise).real
        waves = waves + 2 * waves.mean(0)  # channels are alike
        pixels = waves / waves.std() * 55 + 120 + draws.normal(0, 4, (1, *SIZE))
        place = folder / f"class_{number % classes}"
        place.mkdir(parents=True, exist_ok=True)
        picture = PIL.Image.fromarray(pixels.clip(0, 255).astype("uint8").transpose(1, 2, 0))
        picture.save(place / f"{number}.jpg", quality=QUALITY)
    return folder

"""The data sets as the sides want to find them, made from ddprun's copy of the data; where CIFAR-100 is missing, of
random images."""

import gzip
import os
import pathlib
import shutil
import tarfile

MNIST = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
CIFAR100_FOLDER, CIFAR100_ARCHIVE = "cifar-100-binary", "cifar-100-binary.tar.gz"
CIFAR100_RECORD_BYTES = 2 + 3 * 32 * 32  # coarse label, fine label, pixels
RANDOM_TEST_IMAGES = 1000
PHOTO_SIZE, PHOTO_QUALITY = (375, 500), 86  # 108 kB, about as much as ImageNet's


def places(*names):
    """Where data may lie: folders of these names below $DDPRUN_DATA and the cache that ddprun downloads to."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "ddprun")
    return [
        pathlib.Path(top, name).resolve()
        for top in filter(None, [os.environ.get("DDPRUN_DATA"), cache])
        for name in names
    ]


def extract(archive, target):
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian 12's Python has none
        packed.extractall(target)


def lay_out_mnist(target):
    """target/MNIST/raw: links to the files, or what is in them. torchvision asks only whether they are there."""
    folders = places("mnist")
    source = next((one for one in folders if all((one / name).exists() or (one / f"{name}.gz").exists() for name in MNIST)), None)
    if source is None:
        looked = ", ".join(map(str, folders))
        raise SystemExit(f"MNIST is not in {looked}: set DDPRUN_DATA, or let `ddprun experiments/mnist.yaml` download it")
    raw = pathlib.Path(target) / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name in MNIST:
        if (source / name).exists():
            (raw / name).symlink_to(source / name)
        else:
            with gzip.open(source / f"{name}.gz") as packed, open(raw / name, "wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
    return pathlib.Path(target)


def find_cifar100():
    """The archive, or None."""
    archives = [folder / CIFAR100_ARCHIVE for folder in places("cifar100", "cifar100-subset")]
    return next(filter(pathlib.Path.exists, archives), None)


def lay_out_cifar100(target, images):
    """target/cifar-100-binary: the files themselves, with so many training images: those that there are, over and over.
    True: they are the true ones; False: they are random, since the archive is not here."""
    folder = pathlib.Path(target) / CIFAR100_FOLDER
    archive = find_cifar100()
    if archive is None:
        folder.mkdir(parents=True)
        for name, count in {"train.bin": images, "test.bin": RANDOM_TEST_IMAGES}.items():
            (folder / name).write_bytes(b"".join(random_record(number) for number in range(count)))
        for name, count in {"coarse_label_names.txt": 20, "fine_label_names.txt": 100}.items():
            (folder / name).write_text("".join(f"{number}\n" for number in range(count)))
        return False
    extract(archive, target)
    records = (folder / "train.bin").read_bytes()
    times = -(-images * CIFAR100_RECORD_BYTES // len(records))
    (folder / "train.bin").write_bytes((records * times)[: images * CIFAR100_RECORD_BYTES])
    return True


def random_record(number):
    return bytes((number % 20, number % 100)) + os.urandom(CIFAR100_RECORD_BYTES - 2)


def lay_out_photos(folder, count=256, classes=4):
    """JPEG files that cost what photographs cost: waves of every length as nature has them, and a camera's grain.
    Writes them into a folder for each class and returns the folder of these."""
    import numpy
    import PIL.Image

    draws = numpy.random.default_rng(1)
    y, x = numpy.meshgrid(*(numpy.fft.fftfreq(side) for side in PHOTO_SIZE), indexing="ij")
    falloff = 1 / numpy.maximum(
        numpy.hypot(y, x), 1 / max(PHOTO_SIZE)
    )  # 1/f: Field, "Relations between the statistics of natural images", 1987
    for number in range(count):
        noise = numpy.fft.fft2(draws.standard_normal((3, *PHOTO_SIZE))) * falloff
        waves = numpy.fft.ifft2(noise).real
        waves = waves + 2 * waves.mean(0)  # channels are alike
        pixels = waves / waves.std() * 55 + 120 + draws.normal(0, 4, (1, *PHOTO_SIZE))
        place = folder / f"class_{number % classes}"
        place.mkdir(parents=True, exist_ok=True)
        picture = PIL.Image.fromarray(pixels.clip(0, 255).astype("uint8").transpose(1, 2, 0))
        picture.save(place / f"{number}.jpg", quality=PHOTO_QUALITY)
    return folder

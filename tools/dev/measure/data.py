"""The data sets as the sides want to find them, made from ddprun's copy of the data; where CIFAR's is missing, of
random images."""

import gzip
import os
import pathlib
import pickle
import shutil
import tarfile

MNIST = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
IMAGE_BYTES = 3 * 32 * 32  # of CIFAR
CIFAR10_FOLDER, CIFAR10_ARCHIVE = "cifar-10-batches-bin", "cifar-10-binary.tar.gz"
CIFAR10_FILES = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
CIFAR100_FOLDER, CIFAR100_ARCHIVE = "cifar-100-binary", "cifar-100-binary.tar.gz"
CIFAR100_RECORD_BYTES = 2 + IMAGE_BYTES  # coarse label, fine label, pixels
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


# --- MNIST -----------------------------------------------------------------------------------------------------------


def find_mnist():
    folders = places("mnist")
    for folder in folders:
        if all((folder / name).exists() or (folder / f"{name}.gz").exists() for name in MNIST):
            return folder
    looked = ", ".join(map(str, folders))
    raise SystemExit(f"MNIST is not in {looked}: set DDPRUN_DATA, or let `ddprun experiments/mnist.yaml` download it")


def lay_out_mnist(target):
    """target/MNIST/raw: links to the files, or what is in them. torchvision asks only whether they are there."""
    source = find_mnist()
    raw = pathlib.Path(target) / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name in MNIST:
        if (source / name).exists():
            (raw / name).symlink_to(source / name)
        else:
            with gzip.open(source / f"{name}.gz") as packed, open(raw / name, "wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
    return pathlib.Path(target)


# --- CIFAR -----------------------------------------------------------------------------------------------------------


def lay_out_cifar10(target, records):
    """target/cifar-10-batches-bin. True: the true images; False: random ones, so many in a file."""
    target = pathlib.Path(target)
    there = [folder / name for folder in places("cifar10") for name in (CIFAR10_FOLDER, CIFAR10_ARCHIVE)]
    found = next((place for place in there if place.exists()), None)
    if found is None:
        for name in CIFAR10_FILES:
            write_random(target / CIFAR10_FOLDER / name, records, [10])
        write_names(target / CIFAR10_FOLDER / "batches.meta.txt", 10)
    elif found.is_dir():
        (target / CIFAR10_FOLDER).symlink_to(found)
    else:
        extract(found, target)
    return found is not None


def find_cifar100():
    """Where the archive lies."""
    folders = places("cifar100", "cifar100-subset")
    for folder in folders:
        if (folder / CIFAR100_ARCHIVE).exists():
            return folder
    raise SystemExit(f"{CIFAR100_ARCHIVE} is not in {', '.join(map(str, folders))}: set DDPRUN_DATA")


def lay_out_cifar100(target, images):
    """target/cifar-100-binary: the files themselves, with so many training images: those that there are, over and over.
    True: they are the true ones; False: they are random, since the archive is not here."""
    folder = pathlib.Path(target) / CIFAR100_FOLDER
    try:
        extract(find_cifar100() / CIFAR100_ARCHIVE, target)
    except SystemExit:
        for name, count in {"train.bin": images, "test.bin": RANDOM_TEST_IMAGES}.items():
            write_random(folder / name, count, [20, 100])
        for name, count in {"coarse_label_names.txt": 20, "fine_label_names.txt": 100}.items():
            write_names(folder / name, count)
        return False
    records = (folder / "train.bin").read_bytes()
    times = -(-images * CIFAR100_RECORD_BYTES // len(records))
    (folder / "train.bin").write_bytes((records * times)[: images * CIFAR100_RECORD_BYTES])
    return True


def lay_out_cifar100_pickles(target):
    """target/cifar-100-python: the files that torchvision reads, pickles of arrays."""
    import numpy  # here: the other layouts do without

    folder = pathlib.Path(target) / "cifar-100-python"
    folder.mkdir(parents=True)
    with tarfile.open(find_cifar100() / CIFAR100_ARCHIVE) as archive:
        for name in ("train", "test"):
            records = numpy.frombuffer(archive.extractfile(f"{CIFAR100_FOLDER}/{name}.bin").read(), numpy.uint8)
            records = records.reshape(-1, CIFAR100_RECORD_BYTES)
            (folder / name).write_bytes(pickle.dumps({"data": records[:, 2:], "fine_labels": records[:, 1].tolist()}))
        names = archive.extractfile(f"{CIFAR100_FOLDER}/fine_label_names.txt").read().decode().split()
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": names}))
    return pathlib.Path(target)


def write_random(path, count, classes):
    """Random pictures of the true ones' form, in all classes: of each a label for every number of classes, then its
    pixels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        for number in range(count):
            file.write(bytes(number % of_all for of_all in classes) + os.urandom(IMAGE_BYTES))


def write_names(path, count):
    path.write_text("".join(f"{number}\n" for number in range(count)))


# --- photographs -----------------------------------------------------------------------------------------------------


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

"""CIFAR-100 as torchvision wants to find it, or as its binary files of any length, made from ddprun's copy of the data."""

import os
import pathlib
import pickle
import tarfile

ARCHIVE = "cifar-100-binary.tar.gz"
FOLDERS = ("cifar100", "cifar100-subset")  # below $DDPRUN_DATA
IMAGE_BYTES = 3 * 32 * 32
RECORD_BYTES = 2 + IMAGE_BYTES  # coarse label, fine label, pixels
RANDOM_TEST_IMAGES = 1000


def find_folder():
    """Where the archive lies."""
    folders = [pathlib.Path(os.environ.get("DDPRUN_DATA", "."), name) for name in FOLDERS]
    for folder in folders:
        if (folder / ARCHIVE).exists():
            return folder.resolve()
    raise SystemExit(f"{ARCHIVE} is not in {' or '.join(map(str, folders))}: set DDPRUN_DATA")


def lay_out(target):
    """target/cifar-100-python: the files that torchvision reads, pickles of arrays."""
    import numpy  # here: the other layout does without

    folder = pathlib.Path(target) / "cifar-100-python"
    folder.mkdir(parents=True)
    with tarfile.open(find_folder() / ARCHIVE) as archive:
        for name in ("train", "test"):
            records = numpy.frombuffer(archive.extractfile(f"cifar-100-binary/{name}.bin").read(), numpy.uint8)
            records = records.reshape(-1, RECORD_BYTES)
            write(folder / name, {"data": records[:, 2:], "fine_labels": records[:, 1].tolist()})
        names = archive.extractfile("cifar-100-binary/fine_label_names.txt").read().decode().split()
    write(folder / "meta", {"fine_label_names": names})
    return pathlib.Path(target)


def lay_out_binary(target, images):
    """target/cifar-100-binary: the files themselves, with so many training images: those that there are, over and over. True: they are
    the true ones; False: they are random, since the archive is not here."""
    target = pathlib.Path(target)
    folder = target / "cifar-100-binary"
    try:
        archive = find_folder() / ARCHIVE
    except SystemExit:
        make_random(folder, images)
        return False
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian 12's Python has none
        packed.extractall(target)
    records = (folder / "train.bin").read_bytes()
    times = -(-images * RECORD_BYTES // len(records))
    (folder / "train.bin").write_bytes((records * times)[: images * RECORD_BYTES])
    return True


def make_random(folder, images):
    """Random pictures of the true ones' form, in all classes."""
    folder.mkdir(parents=True)
    for name, count in {"train.bin": images, "test.bin": RANDOM_TEST_IMAGES}.items():
        records = (bytes([number % 20, number % 100]) + os.urandom(IMAGE_BYTES) for number in range(count))
        (folder / name).write_bytes(b"".join(records))
    for name, count in {"coarse_label_names.txt": 20, "fine_label_names.txt": 100}.items():
        (folder / name).write_text("".join(f"{number}\n" for number in range(count)))


def write(path, content):
    with open(path, "wb") as file:
        pickle.dump(content, file)

"""CIFAR-100 as torchvision wants to find it, made from ddprun's copy of the data."""

import os
import pathlib
import pickle
import tarfile

import numpy

ARCHIVE = "cifar-100-binary.tar.gz"
FOLDERS = ("cifar100", "cifar100-subset")  # below $DDPRUN_DATA
IMAGE_BYTES = 3 * 32 * 32


def find_folder():
    """Where the archive lies."""
    folders = [pathlib.Path(os.environ.get("DDPRUN_DATA", "."), name) for name in FOLDERS]
    for folder in folders:
        if (folder / ARCHIVE).exists():
            return folder.resolve()
    raise SystemExit(f"{ARCHIVE} is not in {' or '.join(map(str, folders))}: set DDPRUN_DATA")


def lay_out(target):
    """target/cifar-100-python: the files that torchvision reads, pickles of arrays."""
    folder = pathlib.Path(target) / "cifar-100-python"
    folder.mkdir(parents=True)
    with tarfile.open(find_folder() / ARCHIVE) as archive:
        for name in ("train", "test"):
            records = numpy.frombuffer(archive.extractfile(f"cifar-100-binary/{name}.bin").read(), numpy.uint8)
            records = records.reshape(-1, 2 + IMAGE_BYTES)  # coarse label, fine label, pixels
            write(folder / name, {"data": records[:, 2:], "fine_labels": records[:, 1].tolist()})
        names = archive.extractfile("cifar-100-binary/fine_label_names.txt").read().decode().split()
    write(folder / "meta", {"fine_label_names": names})
    return pathlib.Path(target)


def write(path, content):
    with open(path, "wb") as file:
        pickle.dump(content, file)

"""CIFAR-10's binary files, or random ones of the same size where there are none."""

import os
import pathlib
import tarfile

ARCHIVE = "cifar-10-binary.tar.gz"
FOLDER = "cifar-10-batches-bin"
TRAIN = [f"data_batch_{number}.bin" for number in range(1, 6)]
TEST = "test_batch.bin"
RECORDS, PIXELS, CLASSES = 10_000, 3 * 32 * 32, 10  # of a file


def find():
    """The archive, or the folder of the files themselves; None where neither is there."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for folder in filter(None, [os.environ.get("DDPRUN_DATA"), pathlib.Path(cache, "ddprun")]):
        folder = pathlib.Path(folder, "cifar10").resolve()
        for found in (folder / FOLDER, folder / ARCHIVE):
            if found.exists():
                return found
    return None


def lay_out(target, records=RECORDS):
    """target/cifar-10-batches-bin. True: the true images; False: random ones."""
    target = pathlib.Path(target)
    found = find()
    if found is None:
        make_random(target / FOLDER, records)
    elif found.is_dir():
        (target / FOLDER).symlink_to(found)
    else:
        with tarfile.open(found) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian 12's Python has none
            archive.extractall(target)
    return found is not None


def make_random(folder, records):
    folder.mkdir(parents=True)
    for name in [*TRAIN, TEST]:
        images = os.urandom(records * PIXELS)
        with open(folder / name, "wb") as file:
            for number in range(records):
                file.write(bytes([images[number * PIXELS] % CLASSES]))
                file.write(images[number * PIXELS : (number + 1) * PIXELS])
    (folder / "batches.meta.txt").write_text("".join(f"{number}\n" for number in range(CLASSES)))

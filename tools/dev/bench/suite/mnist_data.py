"""MNIST as torchvision wants to find it, made from ddprun's copy of the data."""

import gzip
import os
import pathlib
import shutil

FILES = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


def find_folder():
    folders = [pathlib.Path(os.environ["DDPRUN_DATA"], "mnist")] if os.environ.get("DDPRUN_DATA") else []
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folders.append(pathlib.Path(cache, "ddprun", "mnist"))
    for folder in folders:
        if all((folder / name).exists() or (folder / f"{name}.gz").exists() for name in FILES):
            return folder.resolve()
    looked = ", ".join(map(str, folders))
    raise SystemExit(f"MNIST is not in {looked}: set DDPRUN_DATA, or let `ddprun experiments/mnist.yaml` download it")


def lay_out(target):
    """target/MNIST/raw: links to the files, or what is in them. torchvision asks only whether they are there."""
    source = find_folder()
    raw = pathlib.Path(target) / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name in FILES:
        if (source / name).exists():
            (raw / name).symlink_to(source / name)
        else:
            with gzip.open(source / f"{name}.gz") as packed, open(raw / name, "wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
    return pathlib.Path(target)

"""The data pipeline alone, images/s of one core, beside torchvision with a DataLoader."""

import functools
import sys

from measure import data, process
from measure.rounds import Side
from measure.table import Case, Figure, Ratio, Table
from measure.trainings import PEERS, ROOT

BUILD = ROOT / "build/release"
BATCH = 100
BATCHES = {
    "mnist": 600,
    "cifar100": 300,
    "photos": 6,
    "photos_recipe": 6,
}  # of the scripts; ddprun makes ten times as many
NAMES = {"mnist": "MNIST", "cifar100": "CIFAR-100, crop and flip", "photos": "JPEG, 500 x 375: random resized crop to 224, flip",
         "photos_recipe": "the same with TrivialAugment and erasing"}  # fmt: skip
PHOTOS = {"dataset": "image_folder", "dataset.crop_scale": "[0.08,1]", "dataset.flip": "true"}
RECIPE = {"dataset.trivial_augment": "true", "dataset.erasing": 0.1}
OF_A_CORE = Figure("of_a_core", "images/s of one core")


def ours(name, folder, seconds):
    words = {"dataset": name, "trainer.global_batch": BATCH, "trainer.prefetch_threads": 1}
    if name.startswith("photos"):
        words |= PHOTOS | {"dataset.root": folder} | (RECIPE if name == "photos_recipe" else {})
    else:
        words["dataset.validation"] = 0
    if name == "cifar100":
        words["dataset.root"] = data.find_cifar100()
    overrides = [f"{key}={value}" for key, value in words.items()]
    command = [BUILD / "tools/loader_probe", ROOT / "configs", 10 * BATCHES[name], "experiments/mnist.yaml", *overrides]
    return of_a_core(process.last_line(command, seconds))


def torchvision(name, folder, seconds):
    command = [
        sys.executable,
        PEERS / "loader.py",
        f"--dataset={name}",
        f"--data={folder}",
        f"--batch={BATCH}",
        f"--batches={BATCHES[name]}",
    ]
    return of_a_core(process.last_line(command, seconds, {"OMP_NUM_THREADS": "1"}))


def of_a_core(found):
    return {**found, "of_a_core": found["images"] / found["cpu_seconds"]}


def cases(bench):
    process.build("loader_probe")
    lay_out = {"mnist": lambda: bench.mnist, "cifar100": lambda: data.lay_out_cifar100_pickles(bench.folder / "pickles"),
               "photos": lambda: bench.photos, "photos_recipe": lambda: bench.photos}  # fmt: skip
    for name in bench.options.data or NAMES:
        folder = lay_out[name]()
        sides = [
            Side("ddprun", functools.partial(ours, name, folder)),
            Side("torchvision", functools.partial(torchvision, name, folder)),
        ]
        yield Case(sides, (OF_A_CORE,), (Ratio("ddprun", "torchvision", OF_A_CORE),), NAMES[name])


def in_words(_):
    return (
        f"Training batches of {BATCH}, shuffled, normalised, nothing computed with them: images over the processor "
        "time of the whole process, so that of one core. ddprun: its own reader with one thread beside the one that "
        "takes the batches; torchvision: ToTensor and Normalize in a DataLoader of the same process; of photographs "
        "both decode the files."
    )


TABLES = [
    Table(
        "loader",
        "the data pipeline alone, images/s of one core, beside torchvision with a DataLoader",
        cases,
        words=in_words,
    )
]

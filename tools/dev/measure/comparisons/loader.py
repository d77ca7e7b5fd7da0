"""The data pipeline alone, images/s of one core, beside torchvision with a DataLoader."""

import functools
import json
import tempfile

from measure import process
from measure.rounds import Side
from measure.table import Case, Figure, Ratio, Table
from measure.trainings import PEERS, Job, train

BATCH = 100
BATCHES = {"mnist": 600, "photos": 6}  # of the script; ddprun makes so many times as many, which take as long
MORE = {"mnist": 10, "photos": 2}
NAMES = {"mnist": "MNIST", "photos": "JPEG, 500 x 375: random resized crop to 224, flip"}
OF_A_CORE = Figure("of_a_core", "images/s of one core")


def ours(bench, name, folder, seconds):
    """A linear layer trains on them, whose time is not counted: the thread that trains reads them itself."""
    words = ["~early_stopping", "model=mlp", "model.layers=0", "trainer.prefetch_threads=0", "dataset.resident=off",
             "trainer.sanity_batches=0", "trainer.limit_test_batches=1"]  # fmt: skip
    if name == "photos":
        words += ["dataset=image_folder", f"dataset.root={folder}", "dataset.crop_scale=[0.08,1]", "dataset.flip=true"]
    else:
        words.append("dataset.validation=0")
    steps = MORE[name] * BATCHES[name]
    found = train(bench, Job(BATCH, steps, steps // 2, overrides=tuple(words), threads=1), seconds)
    return {"of_a_core": steps * BATCH / found["summary"]["data_seconds"]}


def torchvision(bench, name, folder, seconds):
    with tempfile.NamedTemporaryFile(dir=bench.folder) as answer:
        words = [f"--dataset={name}", f"--data={folder}", f"--batch={BATCH}", f"--batches={BATCHES[name]}", f"--json={answer.name}"]
        process.run([bench.python, PEERS / "loader.py", *words], {"OMP_NUM_THREADS": "1"}, bench.folder, seconds)
        found = json.load(answer)
    return {"of_a_core": found["images"] / found["seconds"]}


def cases(bench):
    for name in bench.data:
        folder = bench.mnist if name == "mnist" else bench.photos
        sides = [Side("ddprun", functools.partial(ours, bench, name, folder)),
                 Side("torchvision", functools.partial(torchvision, bench, name, folder))]  # fmt: skip
        yield Case(sides, (OF_A_CORE,), (Ratio("ddprun", "torchvision", OF_A_CORE),), NAMES[name])


def in_words(_):
    return (
        f"Training batches of {BATCH}, shuffled and normalised, over the time in which one thread makes them, without what is "
        "computed with them. torchvision: ToTensor and Normalize in a DataLoader of the same process; of photographs both decode "
        "the files."
    )


TABLES = [Table("loader", "the data pipeline alone, images/s of one core, beside torchvision with a DataLoader", cases, words=in_words)]

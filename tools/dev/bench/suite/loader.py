"""Table: the data pipeline alone, images/s of one core, beside torchvision with a DataLoader."""

import pathlib
import sys
import tempfile

from suite import cifar_data, mnist_data, photos, probes, report

TITLE = "The data pipeline alone"
BATCH = 100
BATCHES = {"mnist": 600, "cifar100": 300, "photos": 6, "photos_recipe": 6}  # of the scripts; ddprun makes ten times as many
NAMES = {"mnist": "MNIST", "cifar100": "CIFAR-100, crop and flip", "photos": "JPEG, 500 x 375: random resized crop to 224, flip",
         "photos_recipe": "the same with TrivialAugment and erasing"}  # fmt: skip
PHOTOS = {"dataset": "image_folder", "dataset.crop_scale": "[0.08,1]", "dataset.flip": "true"}
RECIPE = {"dataset.trivial_augment": "true", "dataset.erasing": 0.1}
SCRIPT = probes.ROOT / "tools/dev/bench/loader/with_torchvision.py"


def ours(name, data, options):
    words = {"dataset": name, "trainer.global_batch": BATCH, "trainer.prefetch_threads": 1, "dataset.validation": 0}
    if name == "cifar100":
        words["dataset.root"] = cifar_data.find_folder()
    if name.startswith("photos"):
        del words["dataset.validation"]
        words |= PHOTOS | {"dataset.root": data} | (RECIPE if name == "photos_recipe" else {})
    overrides = [f"{key}={value}" for key, value in words.items()]
    return probes.run("loader_probe", probes.ROOT / "configs", 10 * BATCHES[name], "experiments/mnist.yaml", *overrides,
                      timeout=options.timeout)  # fmt: skip


def theirs(name, data, options):
    command = [sys.executable, str(SCRIPT), f"--dataset={name}", f"--data={data}", f"--batch={BATCH}",
               f"--batches={BATCHES[name]}"]  # fmt: skip
    return probes.last_line(command, options.timeout, {"OMP_NUM_THREADS": "1"})


def measure(options):
    probes.build("loader_probe")
    rows, figures = [], {}
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as top:
        folders = {"mnist": mnist_data.lay_out(pathlib.Path(top, "m")), "cifar100": cifar_data.lay_out(pathlib.Path(top, "c"))}
        folders["photos"] = folders["photos_recipe"] = photos.lay_out(pathlib.Path(top, "p"))
        wanted = options.data or list(folders)
        for name, data in ((name, folders[name]) for name in wanted):
            runs = {"ddprun": [], "torchvision": []}
            for number in range(options.pairs):
                sides = [("ddprun", lambda: ours(name, data, options)), ("torchvision", lambda: theirs(name, data, options))]
                for side, pull in sides if number % 2 == 0 else reversed(sides):
                    runs[side].append(pull())
            figures[name] = runs
            rows.append(row(name, runs))
    text = (
        f"Training batches of {BATCH}, shuffled, normalised, nothing computed with them: images over the processor time of the whole "
        "process, so that of one core. ddprun: its own reader with one thread beside the one that takes the batches; torchvision: ToTensor "
        f"and Normalize in a DataLoader of the same process; of photographs both decode the files. Rounds: {options.pairs}. Median (least .. most); ratios within a round.\n\n"
    )
    return text + report.markdown(["images/s of one core", "ddprun", "torchvision", "ratio"], rows), figures


def row(name, runs):
    speeds = {side: [run["images"] / run["cpu_seconds"] for run in ones] for side, ones in runs.items()}
    ratio = report.ratios(speeds["ddprun"], speeds["torchvision"])
    return [NAMES[name], *(report.show(speed) for speed in speeds.values()), report.show(ratio, 1)]

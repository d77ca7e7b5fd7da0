"""The tables of tools/gpu_check: ddprun on one GPU beside the guides' scripts and tuned ones, with its fast paths off,
against the roofline."""

import dataclasses
import json
import statistics

from measure import data, process
from measure.gpu import calculation
from measure.rounds import Absent, OutOfTime, Side
from measure.table import SECONDS, SPEED, Case, Figure, Ratio, Table, markdown, show
from measure.trainings import PEERS, Job, mnist, train_standing

ALIKE = 0.25  # relative: other weights, other orders of the images
LOSS = Figure("loss", "last training loss", 3)
REPLAYED = Figure("replayed_steps", "steps replayed as CUDA graphs")


def ours(bench, name, job):
    return Side(name, lambda seconds: bench.ddprun.train(job, seconds))


def theirs(bench, name, peer, job):
    return Side(name, lambda seconds: train_standing(bench.peer(peer), job, seconds))


def on_device(bench):
    return {"threads": 0 if bench.device == "cuda" else 1, "device": bench.device}


# --- CIFAR-100 -------------------------------------------------------------------------------------------------------


def cifar100(bench, precision, overrides=(), words=(), large=False):
    sizes = bench.sizes
    depth, widen_factor = sizes.large_network if large else sizes.network
    counts = (
        (sizes.large_batch, sizes.large_steps, sizes.large_warm_up)
        if large
        else (sizes.cifar_batch, sizes.cifar_steps, sizes.cifar_warm_up)
    )
    settings = (
        f"model.depth={depth}",
        f"model.widen_factor={widen_factor}",
        f"dataset.root={bench.data}",
        "model.dropout=0",
        "~early_stopping",
    )
    overrides = (*settings, f"trainer.precision={precision}", *overrides)
    return Job(*counts, "experiments/cifar100_olivia.yaml", overrides, words, **on_device(bench))


def name_of(network):
    return f"WRN-{'-'.join(map(str, network))}"


def training_images(bench):
    which = (
        "those of the files, over and over"
        if bench.real_cifar100
        else "RANDOM ones, since CIFAR-100 is not here ($DDPRUN_DATA)"
    )
    return f"{bench.sizes.cifar_images:,} training images, the same for all sides: {which}"


def wide_resnet(bench):
    half = bench.sizes.half
    sides = [
        ours(bench, f"ddprun {precision}", cifar100(bench, precision)) for precision in dict.fromkeys((half, "bf16"))
    ]
    sides.append(theirs(bench, f"plain {half}", "cifar_plain", cifar100(bench, half)))
    for name, words in {"expert bf16": (), "expert bf16, eager": ("--no-compile",)}.items():
        sides.append(theirs(bench, name, "cifar_expert", cifar100(bench, "bf16", words=words)))
    ratios = (
        Ratio(f"ddprun {half}", f"plain {half}", at_least=2.0),
        Ratio("ddprun bf16", "expert bf16", at_least=1.3),
        Ratio("ddprun bf16", "expert bf16, eager"),
    )
    yield Case(sides, (SPEED, LOSS), ratios)


def wide_resnet_in_words(bench):
    sizes = bench.sizes
    how = (
        "torchvision's transforms"
        if bench.has_torchvision
        else "transforms of tensors, since torchvision is not installed,"
    )
    return (
        f"{name_of(sizes.network)}, batch {sizes.cifar_batch}, SGD, {sizes.cifar_steps} steps, measured after "
        f"{sizes.cifar_warm_up}, all sides alike; {training_images(bench)}. plain: the guide's script, {sizes.half} by "
        f"autocast and GradScaler, DDP, {how} in a DataLoader (worker processes: {bench.loader_workers}) with "
        "page-locked memory. expert: bytes on the GPU, augmented there batch by batch, channels_last, fused SGD, "
        "torch.compile with CUDA graphs; eager: the same without torch.compile. ddprun's loss is the mean since the "
        "row before, the scripts' that of the step."
    )


def compare_losses(_, made):
    """Says whether all sides have learned alike, loosely."""
    last = [figures["loss"] for _, rounds in made.cases for results in rounds.results.values() for figures in results]
    if last:
        alike = max(last) <= (1 + ALIKE) * min(last)
        words = "alike" if alike else "NOT alike: the speeds are not of the same training"
        made.text += f"\n\nThe last losses are {words}: {min(last):.2f} .. {max(last):.2f} (allowed between them: {100 * ALIKE:.0f} %)."


# --- MNIST -----------------------------------------------------------------------------------------------------------


def mnist_table(model, goal=None):
    def cases(bench):
        sizes = bench.sizes
        full, short = (sizes.mnist_steps, sizes.mnist_warm_up), (sizes.plain_mnist_steps, sizes.plain_mnist_warm_up)
        plain = dataclasses.replace(mnist_job(bench, model, *short), words=(f"--model={model}",))  # it knows fp32 alone
        sides = [
            ours(bench, f"ddprun {precision}", mnist_job(bench, model, *full, precision))
            for precision in ("fp32", "bf16")
        ]
        sides.append(theirs(bench, "plain fp32", "mnist_plain", plain))
        for precision in ("fp32", "bf16"):
            sides.append(
                theirs(bench, f"expert {precision}", "mnist_expert", mnist_job(bench, model, *full, precision))
            )
        ratios = (
            Ratio("ddprun fp32", "plain fp32", at_least=goal),
            Ratio("ddprun bf16", "plain fp32"),
            Ratio("ddprun fp32", "expert fp32"),
            Ratio("ddprun bf16", "expert bf16"),
        )
        figures = (
            SPEED,
            Figure("compared_loss", f"training loss, step {sizes.mnist_warm_up}", 3),
            Figure("test_correct", "test images correct"),
        )
        yield Case([with_loss_of(side, sizes.mnist_warm_up) for side in sides], figures, ratios)

    return Table(f"mnist_{model}", f"MNIST, {model}, beside the guides' script and a tuned one", cases, words=mnist_in_words, weight=15,
                 least=15, needs="mnist")  # fmt: skip


def mnist_job(bench, model, steps, warm_up, precision="fp32"):
    return Job(bench.sizes.mnist_batch, steps, warm_up, **mnist(model, precision), **on_device(bench))


def with_loss_of(side, step):
    """All sides have read it, though they train for other numbers of steps."""

    def run(seconds):
        found = side.run(seconds)
        return {**found, "compared_loss": found["losses"][step]}

    return Side(side.name, run)


def mnist_in_words(bench):
    sizes = bench.sizes
    loader = (
        "torchvision's MNIST" if bench.has_torchvision else "a data set of tensors, since torchvision is not installed,"
    )
    return (
        f"Batch {sizes.mnist_batch}, SGD; fp32 on all sides as torch has it by default: "
        f"{fp32_in_words(bench.versions)}. plain: the guides' script, fp32, DDP, {loader} behind a DataLoader with one "
        f"worker process and page-locked memory, {sizes.plain_mnist_steps} steps, measured after "
        f"{sizes.plain_mnist_warm_up}. expert: images on the GPU, channels_last, fused SGD, torch.compile with CUDA "
        f"graphs, no DDP for one worker. ddprun and expert: {sizes.mnist_steps} steps, measured after "
        f"{sizes.mnist_warm_up}. ddprun's loss is the mean since the row before, the scripts' that of the step."
    )


def fp32_in_words(versions):
    """Uses the default of the peers' torch, which their scripts do not change; trainer.precision=fp32 is the same."""
    convolutions = "in TF32" if versions.get("tf32_convolutions") else "exact"
    products = {"highest": "exact", "high": "in TF32"}.get(versions.get("float32_products"), "unknown")
    return f"convolutions {convolutions}, matrix products {products}"


# --- what each fast path is worth: switched off by its key, one at a time --------------------------------------------

AS_IT_IS = "as it is, bf16"
SWITCHED = (
    "trainer.cuda_graph=off",
    "dataset.resident=host",
    "dataset.resident=off",
    "trainer.memory_format=channels_first",
)


def fast_paths(model, job, trained, needs=""):
    """job(bench, overrides) is that of each side, and trained(bench) says on what."""

    def cases(bench):
        keys = (*SWITCHED, *(f"trainer.precision={precision}" for precision in bench.sizes.precisions))
        sides = [ours(bench, AS_IT_IS, job(bench, ())), *(ours(bench, key, job(bench, (key,))) for key in keys)]
        yield Case(sides, (SPEED, REPLAYED), tuple(Ratio(key, AS_IT_IS) for key in keys))

    def in_words(bench):
        base = job(bench, ())
        return f"{trained(bench)}. Batch {base.batch}, {base.steps} steps, measured after {base.warm_up}."

    return Table(f"fast_paths_{model}", f"fast paths of {model}, each switched off by its key", cases, words=in_words, needs=needs)


def half_of_mnist(bench, overrides):
    job = mnist_job(bench, "convnet", bench.sizes.mnist_steps // 2, bench.sizes.mnist_warm_up, "bf16")
    return dataclasses.replace(job, overrides=(*job.overrides, *overrides))


# --- CIFAR-10: the whole command, so that the clock starts for both when the user presses Enter ----------------------

EPOCHS = 9.9  # of airbench94
TEST_IMAGES = 10_000
OF_TRAINING = Figure("train_seconds", "training, s", 2, more_is_better=False)
ACCURACY = Figure("accuracy", "test accuracy, %", 2)


def cifar10(bench):
    folder = bench.folder / "cifar10"
    folder.mkdir()
    bench.real_cifar10 = data.lay_out_cifar10(folder, bench.sizes.cifar10_records)
    counts = (50, 4, 2) if bench.sizes.speedrun else (2000, 200, 100)
    job = Job(
        *counts,
        "experiments/cifar10_speedrun.yaml",
        (f"dataset.root={folder}", *bench.sizes.speedrun),
        **on_device(bench),
    )
    sides = [
        Side("ddprun", lambda seconds: speedrun(bench, job, seconds)),
        Side("airbench94", lambda seconds: airbench94(bench, folder, seconds)),
    ]
    yield Case(
        sides,
        (SECONDS, OF_TRAINING, *([ACCURACY] if bench.real_cifar10 else [])),
        (Ratio("ddprun", "airbench94", SECONDS, 1.0),),
    )


def speedrun(bench, job, seconds):
    found = bench.ddprun.train(job, seconds)
    return {
        **found,
        "train_seconds": found["summary"]["train_seconds"],
        "accuracy": 100 * found["test_correct"] / max(1, found["test_total"]),
    }


def airbench94(bench, folder, seconds):
    absent = why_not(bench)
    if absent:
        raise Absent(absent)
    command = [bench.python, str(PEERS / "cifar/airbench94.py"), f"--data={folder}"]
    if not (folder / "cifar10").exists():
        process.run([*command, "--prepare"], bench.peer_environment, bench.folder, seconds)
    answer = folder / "airbench94.json"
    answer.unlink(missing_ok=True)
    finished = process.run([*command, f"--json={answer}"], bench.peer_environment, bench.folder, seconds)
    found = json.loads(answer.read_text())
    return {"seconds": finished.seconds, "train_seconds": found["train_seconds"], "accuracy": 100 * found["accuracy"]}


def why_not(bench):
    if bench.device != "cuda":
        return "airbench trains on GPUs alone"
    if bench.sizes.speedrun:
        return "this is a rehearsal: airbench's convolutions in fp16 would take a CPU minutes"
    if not bench.versions.get("airbench"):
        return "the package airbench is not installed for this Python: tools/dev/measure/requirements.txt has it, and a folder made by --pack"
    if not bench.has_torchvision:
        return "the package airbench needs torchvision, which is not installed"
    return ""


def cifar10_in_words(bench):
    images = "" if bench.real_cifar10 else (
        f"CIFAR-10 is not here ($DDPRUN_DATA/cifar10/{data.CIFAR10_ARCHIVE}, or unpacked): both sides train on RANDOM "
        "images of the same number and size, so only the time means something. "
    )  # fmt: skip
    return (
        f"{images}ddprun: experiments/cifar10_speedrun.yaml, 8 epochs with Muon; airbench94: the package's own "
        f"{EPOCHS} epochs with SGD, after a warm-up of a step as its README has it. Each is a recipe to 94 %. Whole "
        "command: from its start to its end, with the test images; ddprun's also writes a checkpoint. Training: "
        "ddprun's train_seconds from the first step on, with its choice of algorithms; airbench94's by its own rule, "
        "after loading and warm-up, with the evaluation."
    )


# --- the roofline ----------------------------------------------------------------------------------------------------

OF_ROOFLINE = Figure("of_roofline", "share of the eager roofline", 2)
WITHOUT_GRAPHS = "trainer.cuda_graph=off"


def limit_of(bench):
    cost = calculation.wide_resnet(*bench.sizes.large_network)
    return calculation.roofline(cost, bench.peaks["operations_per_second"], bench.peaks["bytes_per_second"])


def roofline(bench):
    """Also without graphs, which separates the phases of a step."""
    limit = limit_of(bench)

    def share(words, seconds):
        found = bench.ddprun.train(cifar100(bench, "bf16", words, large=True), seconds)
        return {**found, "of_roofline": found["images_per_second"] / limit.both}

    sides = [
        Side("ddprun bf16", lambda seconds: share((), seconds)),
        Side(WITHOUT_GRAPHS, lambda seconds: share((WITHOUT_GRAPHS,), seconds)),
    ]
    yield Case(
        sides, (SPEED, OF_ROOFLINE), (Ratio("ddprun bf16", figure=OF_ROOFLINE, at_least=0.45),)
    )  # of what eager execution can hope for


def roofline_in_words(bench):
    sizes, peaks = bench.sizes, bench.peaks
    cost = calculation.wide_resnet(*sizes.large_network)
    return (
        f"{name_of(sizes.large_network)}, measured on this machine in the same minutes: "
        f"{peaks['operations_per_second'] / 1e12:,.3g} TFLOP/s (a bf16 product of random matrices, {sizes.matrix} x "
        f"{sizes.matrix}), {peaks['bytes_per_second'] / 1e12:.3g} TB/s (a large copy, read and written). An image "
        f"takes {cost.training_operations / 1e9:.1f} GFLOP and, with kernels that are not fused, "
        f"{cost.traffic_bytes() / 1e6:.1f} MB of traffic. Batch {sizes.large_batch}, {sizes.large_steps} steps, "
        f"measured after {sizes.large_warm_up}. {training_images(bench)}."
    )


def limits(bench, made):
    limit = limit_of(bench)
    made.more.update(peaks=bench.peaks, roofline=dataclasses.asdict(limit))
    rounds = made.cases[0][1]
    speeds = rounds.values("ddprun bf16", "images_per_second") if "ddprun bf16" in rounds.results else []
    named = {
        "matrix units alone": limit.compute,
        "memory alone": limit.memory,
        "one after the other (eager)": limit.both,
    }
    rows = [
        [name, f"{most:,.0f}", show([100 * speed / most for speed in speeds], 1, unit=" %") if speeds else ""]
        for name, most in named.items()
    ]
    made.text += f"\n\n{markdown(['limit', 'images/s', 'share of it'], rows)}"


# --- more GPUs than are there ----------------------------------------------------------------------------------------

GPUS = (2, 4, 8)
LEAST_SHARE = 0.05  # of a step: less means that the phases of a step were not told apart


def scaling(bench, made):
    """From the buckets' sizes, a stated bus bandwidth and the measured time of backward."""
    sizes = bench.sizes
    small = [results_of(bench, "wide_resnet", "ddprun bf16"), results_of(bench, "fast_paths_wide_resnet", AS_IT_IS),
             results_of(bench, "fast_paths_wide_resnet", WITHOUT_GRAPHS)]  # fmt: skip
    large = [results_of(bench, "roofline", side) for side in ("ddprun bf16", WITHOUT_GRAPHS)]
    rows = []
    for network, batch, candidates in (
        (sizes.network, sizes.cifar_batch, small),
        (sizes.large_network, sizes.large_batch, large),
    ):
        times = step_times(candidates, batch)
        if times:
            figures = made.more[name_of(network)] = {"step_seconds": times[0], "backward_seconds": times[1], "rows": []}
            rows.extend(rows_of(network, times, figures["rows"]))
    if not rows:
        raise OutOfTime("no table above has measured how long backward takes")
    header = ["CALCULATED", "GPUs", "bus", "all-reduce of a step, ms", "backward, ms", "not hidden, ms", "efficiency"]
    made.text += f"\n\n{markdown(header, rows)}"


def results_of(bench, name, side):
    """Of a table made before; empty where it was not."""
    made = bench.made.get(name)
    return made.cases[0][1].results.get(side, []) if made else []


def step_times(candidates, batch):
    """Returns the seconds of a step, and of backward in it, from the first runs that separate phases, which a step
    replayed as a CUDA graph does not; None if there are none."""
    for results in candidates:
        summaries = [figures["summary"] for figures in results]
        if any(summary.get("graph_seconds") for summary in summaries):
            continue
        shares = [summary["backward_seconds"] / summary["step_seconds"] for summary in summaries]
        if shares and statistics.median(shares) >= LEAST_SHARE:
            step = statistics.median(batch / figures["images_per_second"] for figures in results)
            return step, step * statistics.median(shares)
    return None


def rows_of(network, times, figures):
    step, backward = times
    filled = calculation.buckets(calculation.wide_resnet(*network).layers)
    for gpus in GPUS:
        for bus, bandwidth in calculation.BUS_BANDWIDTHS.items():
            one = calculation.exchange(filled, gpus, bandwidth, backward, step)
            figures.append({"gpus": gpus, "bus": bus, **dataclasses.asdict(one)})
            numbers = [f"{1e3 * seconds:.2f}" for seconds in (one.total_seconds, backward, one.shown_seconds)]
            yield [name_of(network), gpus, bus, *numbers, f"{100 * one.efficiency:.1f} %"]


def scaling_in_words(_):
    return (
        "Nothing here was run: buckets of the gradients as LibTorch fills them (the first of 1 MiB, then 25 MiB, from "
        "the last layer on), each sent as soon as backward has come so far by the layers' operations, 2 (n - 1) / n "
        "of its bytes over the stated bus bandwidth; backward and step as measured on the one GPU, with the same "
        "batch on each. Latency, and waiting for a slower GPU, are not in it."
    )


# In the order in which they are made: what is promised first.
TABLES = [
    Table("wide_resnet", "the guide's wide residual network on CIFAR-100 (experiments/cifar100_olivia.yaml), beside the guide's script and a "
          "tuned one", wide_resnet, words=wide_resnet_in_words, after=compare_losses, weight=30, least=25),
    mnist_table("convnet", goal=6.0),
    Table("roofline", "a large wide residual network in bf16 against what this very GPU could do at most", roofline, words=roofline_in_words,
          after=limits, weight=13),
    Table("cifar10", "CIFAR-10 in seconds, beside airbench94: the whole command", cifar10, words=cifar10_in_words, least=25),
    fast_paths("convnet", half_of_mnist, lambda _: "MNIST", needs="mnist"),
    mnist_table("convnet_bn"),
    fast_paths("wide_resnet", lambda bench, overrides: cifar100(bench, "bf16", overrides),
               lambda bench: f"{name_of(bench.sizes.network)}; {training_images(bench)}"),
    Table("scaling", "more GPUs than are there, calculated", lambda _: (), words=scaling_in_words, after=scaling, weight=0.1, least=0),
]  # fmt: skip

"""The guide's wide residual network on CIFAR-100 on one GPU, beside the guide's script and a tuned one."""

from gpu_check.rounds import Side, alternate
from gpu_check.table import Comparison, Table, factors, factors_table, figures_of
from gpu_check.trainings import Job, train_peer
from suite import report

ALIKE = 0.25  # relative: other weights, other orders of the images


class WideResNet:
    name, weight, least, needs = "wide_resnet", 30, 25, ""

    def measure(self, bench, share):
        half = bench.sizes.half
        rounds = alternate(self.sides(bench), share, bench.wanted)
        bench.found["wide_resnet"] = rounds.results.get("ddprun bf16", [])
        comparisons = [
            Comparison(f"ddprun {half}", f"plain {half}", 2.0),
            Comparison("ddprun bf16", "expert bf16", 1.3),
            Comparison("ddprun bf16", "expert bf16, eager"),
        ]
        rows, targets = factors(rounds, comparisons)
        text = f"{self.in_words(bench)} {rounds.in_words()}\n\n{sides_table(rounds)}\n\n{factors_table(rows)}\n\n{losses(rounds)}"
        title = f"CIFAR-100, WRN-{'-'.join(map(str, bench.sizes.network))} (experiments/cifar100_olivia.yaml)"
        return Table(title, text, figures_of(rounds), rounds, targets)

    def sides(self, bench):
        for precision in dict.fromkeys((bench.sizes.half, "bf16")):
            job = job_of(bench, precision)
            yield Side(f"ddprun {precision}", lambda seconds, job=job: bench.trainer.train(job, seconds))
        plain = job_of(bench, bench.sizes.half)
        yield Side(f"plain {bench.sizes.half}", lambda seconds: train_peer(bench.peer("cifar_plain"), plain, seconds))
        for name, words in {"expert bf16": [], "expert bf16, eager": ["--no-compile"]}.items():
            job = job_of(bench, "bf16", words=words)
            yield Side(name, lambda seconds, job=job: train_peer(bench.peer("cifar_expert"), job, seconds))

    def in_words(self, bench):
        sizes = bench.sizes
        how = "torchvision's transforms" if bench.has_torchvision else "transforms of tensors, since torchvision is not installed,"
        return (
            f"Batch {sizes.cifar_batch}, SGD, {sizes.cifar_steps} steps, measured after {sizes.cifar_warm_up}, all sides alike; "
            f"{training_images(bench)}. plain: the guide's script, {sizes.half} by "
            f"autocast and GradScaler, DDP, {how} in a DataLoader (worker processes: {bench.loader_workers}) with page-locked "
            "memory. expert: bytes on the GPU, augmented there batch by batch, channels_last, fused SGD, torch.compile with CUDA "
            "graphs; eager: the same without torch.compile. ddprun's loss is the mean since the row before, the scripts' that of the step."
        )


def job_of(bench, precision, overrides=(), words=()):
    sizes = bench.sizes
    return Job(
        batch=sizes.cifar_batch,
        steps=sizes.cifar_steps,
        warm_up=sizes.cifar_warm_up,
        experiment="cifar100_olivia",
        overrides=(*network(sizes.network), *images(bench), f"trainer.precision={precision}", *overrides),
        words=words,
    )


def network(size):
    return (f"model.depth={size[0]}", f"model.widen_factor={size[1]}")


def training_images(bench):
    which = "those of the files, over and over" if bench.real_cifar100 else "RANDOM ones, since CIFAR-100 is not here ($DDPRUN_DATA)"
    return f"{bench.sizes.cifar_images:,} training images, the same for all sides: {which}"


def images(bench):
    """Of the experiment cifar100_olivia."""
    return (f"dataset.root={bench.data}", "model.dropout=0", "~early_stopping")


def sides_table(rounds):
    rows = []
    for name, results in rounds.results.items():
        speeds = [result.images_per_second for result in results]
        rows.append([name, report.show(speeds), report.show([result.loss for result in results], 3)])
    return report.markdown(["", "images/s", "last training loss"], rows)


def losses(rounds):
    """Whether all sides have learned alike, loosely."""
    last = [result.loss for results in rounds.results.values() for result in results]
    if not last:
        return ""
    alike = max(last) <= (1 + ALIKE) * min(last)
    words = "alike" if alike else "NOT alike: the speeds are not of the same training"
    return f"The last losses are {words}: {min(last):.2f} .. {max(last):.2f} (allowed between them: {100 * ALIKE:.0f} %)."

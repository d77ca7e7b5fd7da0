"""MNIST on one GPU, beside the guides' script and a tuned one."""

from gpu_check.peers import mnist_words
from gpu_check.rounds import Side, alternate
from gpu_check.table import Comparison, Table, factors, factors_table, figures_of
from gpu_check.trainings import Job, train_peer
from suite import report


class Mnist:
    weight, least, needs = 15, 15, "mnist"

    def __init__(self, model, targets):
        self.model = model
        self.name = f"mnist_{model}"
        self._targets = targets  # {"plain": how many times its speed}

    def measure(self, bench, share):
        rounds = alternate(self.sides(bench), share, bench.wanted)
        comparisons = [
            Comparison("ddprun fp32", "plain fp32", self._targets.get("plain")),
            Comparison("ddprun bf16", "plain fp32"),
            Comparison("ddprun fp32", "expert fp32"),
            Comparison("ddprun bf16", "expert bf16"),
        ]
        rows, targets = factors(rounds, comparisons)
        text = f"{self.in_words(bench)} {rounds.in_words()}\n\n{self.sides_table(rounds, bench.sizes)}\n\n{factors_table(rows)}"
        return Table(f"MNIST, {self.model}", text, figures_of(rounds), rounds, targets)

    def sides(self, bench):
        sizes = bench.sizes
        for precision in ("fp32", "bf16"):
            job = self.job(sizes, sizes.mnist_steps, sizes.mnist_warm_up, precision)
            yield Side(f"ddprun {precision}", lambda seconds, job=job: bench.trainer.train(job, seconds))
        job = self.job(sizes, sizes.plain_mnist_steps, sizes.plain_mnist_warm_up)
        yield Side("plain fp32", lambda seconds: train_peer(bench.peer("mnist_plain"), job, seconds))
        for precision in ("fp32", "bf16"):
            tuned = self.job(sizes, sizes.mnist_steps, sizes.mnist_warm_up, precision)
            yield Side(f"expert {precision}", lambda seconds, job=tuned: train_peer(bench.peer("mnist_expert"), job, seconds))

    def job(self, sizes, steps, warm_up, precision=None):
        return Job(
            batch=sizes.mnist_batch,
            steps=steps,
            warm_up=warm_up,
            experiment="mnist",
            overrides=("~early_stopping", f"model={self.model}", "optimizer.lr=0.01", "optimizer.momentum=0.9",
                       "dataset.validation=0", f"trainer.precision={precision or 'fp32'}"),
            words=mnist_words(self.model, precision),
        )  # fmt: skip

    def in_words(self, bench):
        sizes = bench.sizes
        loader = "torchvision's MNIST" if bench.has_torchvision else "a data set of tensors, since torchvision is not installed,"
        return (
            f"Batch {sizes.mnist_batch}, SGD; fp32 on all sides as torch has it by default: {bench.fp32_in_words()}. "
            f"plain: the guides' script, fp32, DDP, {loader} behind a DataLoader with one worker "
            f"process and page-locked memory, {sizes.plain_mnist_steps} steps, measured after {sizes.plain_mnist_warm_up}. expert: "
            "images on the GPU, channels_last, fused SGD, torch.compile with CUDA graphs, no DDP for one worker. ddprun and "
            f"expert: {sizes.mnist_steps} steps, measured after {sizes.mnist_warm_up}. ddprun's loss is the mean since the row before, the "
            "scripts' that of the step."
        )

    def sides_table(self, rounds, sizes):
        rows = []
        for name, results in rounds.results.items():
            speeds = [result.images_per_second for result in results]
            at = sizes.mnist_warm_up if sizes.mnist_warm_up in results[0].losses else max(results[0].losses)
            losses = [result.losses[at] for result in results]
            rows.append([name, report.show(speeds), f"{report.show(losses, 3)}, step {at}", correct(results)])
        return report.markdown(["", "images/s", "training loss", "test images correct at its end"], rows)


def correct(results):
    if not results[0].test_total:
        return ""
    return report.show([result.test_correct for result in results])

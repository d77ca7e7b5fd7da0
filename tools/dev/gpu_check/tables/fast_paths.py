"""What each fast path is worth on the GPU: switched off by its key, one at a time."""

from gpu_check.rounds import Side, alternate
from gpu_check.table import Table, figures_of
from gpu_check.tables import wide_resnet
from gpu_check.tables.mnist import Mnist
from gpu_check.trainings import Job
from suite import report

AS_IT_IS = "as it is, bf16"


class FastPaths:
    weight, least = 10, 20

    def __init__(self, model):
        self.model = model
        self.name = f"fast_paths_{model}"
        self.needs = "" if model == "wide_resnet" else "mnist"

    def measure(self, bench, share):
        jobs = {name: self.job(bench, words) for name, words in self.cases(bench).items()}
        sides = [Side(name, lambda seconds, job=job: bench.trainer.train(job, seconds)) for name, job in jobs.items()]
        rounds = alternate(sides, share, bench.wanted)
        bench.found[self.name] = {name: results for name, results in rounds.results.items()}
        text = f"{self.in_words(bench)} {rounds.in_words()}\n\n{table(rounds)}"
        return Table(f"Fast paths of {self.model}", text, figures_of(rounds), rounds)

    def cases(self, bench):
        """The words that switch each path off."""
        cases = {AS_IT_IS: ()}
        for key in ("trainer.cuda_graph=off", "dataset.resident=host", "dataset.resident=off", "trainer.memory_format=channels_first"):
            cases[key] = (key,)
        for precision in bench.sizes.precisions:
            cases[f"trainer.precision={precision}"] = (f"trainer.precision={precision}",)
        return cases

    def job(self, bench, words):
        if self.model == "wide_resnet":
            return wide_resnet.job_of(bench, "bf16", overrides=words)
        sizes = bench.sizes
        base = Mnist(self.model, {}).job(sizes, sizes.mnist_steps // 2, sizes.mnist_warm_up, "bf16")
        return Job(base.batch, base.steps, base.warm_up, base.experiment, (*base.overrides, *words))

    def in_words(self, bench):
        sizes = bench.sizes
        if self.model == "wide_resnet":
            name = f"WRN-{'-'.join(map(str, sizes.network))}"
            return f"{name}, batch {sizes.cifar_batch}, {sizes.cifar_steps} steps, {wide_resnet.training_images(bench)}."
        return f"MNIST, batch {sizes.mnist_batch}, {sizes.mnist_steps // 2} steps."


def table(rounds):
    """Factors are against the first row, round by round."""
    whole = [result.images_per_second for result in rounds.results.get(AS_IT_IS, [])]
    rows = []
    for name, results in rounds.results.items():
        speeds = [result.images_per_second for result in results]
        factor = report.show(report.ratios(speeds, whole), 2) if len(whole) == len(speeds) and name != AS_IT_IS else ""
        rows.append([name, report.show(speeds), factor, results[0].summary.get("replayed_steps", "")])
    return report.markdown(["", "images/s", "of the first row's", "steps replayed as CUDA graphs"], rows)

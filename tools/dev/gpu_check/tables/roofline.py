"""A large wide residual network in bf16 against what this very GPU could do at most, by its own measured peaks."""

import dataclasses

from gpu_check import calculation, network_cost
from gpu_check.rounds import Side, alternate
from gpu_check.table import Table, Target, figures_of
from gpu_check.tables.wide_resnet import images, network, training_images
from gpu_check.trainings import Job
from suite import report

AT_LEAST = 0.45  # of what eager execution can hope for
NO_GRAPHS = "ddprun bf16, trainer.cuda_graph=off"


class Roofline:
    name, weight, least, needs = "roofline", 13, 20, ""

    def measure(self, bench, share):
        sizes = bench.sizes
        rounds = alternate(sides(bench), share, bench.wanted)
        peaks = bench.peaks
        cost = network_cost.wide_resnet(*sizes.large_network)
        limit = calculation.roofline(cost, peaks["operations_per_second"], peaks["bytes_per_second"])
        figures = {**figures_of(rounds), "peaks": peaks, "roofline": dataclasses.asdict(limit)}
        results = rounds.results.get("ddprun bf16", [])
        bench.found["large"] = list(rounds.results.values())
        speeds = [result.images_per_second for result in results]
        targets = [Target("share of the eager roofline", [speed / limit.both for speed in speeds], AT_LEAST)] if speeds else []
        name = f"WRN-{'-'.join(map(str, sizes.large_network))}"
        what = f"{in_words(peaks, cost, sizes)} {training_images(bench)}. {rounds.in_words()}"
        text = f"{what}\n\n{table(limit, speeds, targets)}\n\n{without_graphs(rounds)}".rstrip()
        return Table(f"{name} in bf16 against the roofline", text, figures, rounds, targets)


def sides(bench):
    """Also runs without graphs, which separates the phases of a step."""
    sizes = bench.sizes
    base = (*network(sizes.large_network), *images(bench), "trainer.precision=bf16")
    cases = {"ddprun bf16": base, NO_GRAPHS: (*base, "trainer.cuda_graph=off")}
    for name, words in cases.items():
        job = Job(sizes.large_batch, sizes.large_steps, sizes.large_warm_up, "cifar100_olivia", words)
        yield Side(name, lambda seconds, job=job: bench.trainer.train(job, seconds))


def without_graphs(rounds):
    if NO_GRAPHS not in rounds.results:
        return ""
    return f"With trainer.cuda_graph=off: {report.show([result.images_per_second for result in rounds.results[NO_GRAPHS]])} images/s."


def in_words(peaks, cost, sizes):
    return (
        f"Measured on this machine in the same minutes: {peaks['operations_per_second'] / 1e12:,.3g} TFLOP/s (a bf16 product of random "
        f"matrices, {sizes.matrix} x {sizes.matrix}), {peaks['bytes_per_second'] / 1e12:.3g} TB/s (a large copy, read and "
        f"written). An image takes {cost.training_operations / 1e9:.1f} GFLOP and, with kernels that are not fused, "
        f"{cost.traffic_bytes() / 1e6:.1f} MB of traffic. Batch {sizes.large_batch}, {sizes.large_steps} steps, measured after "
        f"{sizes.large_warm_up}."
    )


def table(limit, speeds, targets):
    limits = {"matrix units alone": limit.compute, "memory alone": limit.memory, "one after the other (eager)": limit.both}
    rows = []
    for name, speed in limits.items():
        shares = report.show([100 * one / speed for one in speeds], 1, unit=" %") if speeds else ""
        rows.append([name, f"{speed:,.0f}", shares, targets[0].in_words() if targets and speed == limit.both else ""])
    rows.append(["ddprun bf16", report.show(speeds) if speeds else "", "", ""])
    return report.markdown(["limit", "images/s", "ddprun's share", "target, as a share"], rows)

"""More GPUs than are there: calculated from the buckets' sizes, a stated bus bandwidth and the measured time of backward."""

import statistics

from gpu_check import calculation, network_cost
from gpu_check.budget import OutOfTime
from gpu_check.table import Table
from gpu_check.tables.fast_paths import AS_IT_IS
from suite import report

GPUS = (2, 4, 8)
LEAST_SHARE = 0.05  # of a step: less means that the phases of a step were not told apart


class Scaling:
    name, weight, least, needs = "scaling", 0.1, 0, ""

    def measure(self, bench, _):
        sizes = bench.sizes
        nets = [(sizes.network, sizes.cifar_batch, wide_resnet_runs(bench.found)),
                (sizes.large_network, sizes.large_batch, bench.found.get("large", []))]  # fmt: skip
        rows, figures = [], {}
        for network, batch, candidates in nets:
            times = step_times(candidates, batch)
            if times:
                name = f"WRN-{'-'.join(map(str, network))}"
                figures[name] = {"step_seconds": times[0], "backward_seconds": times[1], "rows": []}
                rows.extend(rows_of(name, network_cost.wide_resnet(*network), times, figures[name]["rows"]))
        if not rows:
            raise OutOfTime("no table above has measured how long backward takes")
        header = ["CALCULATED", "GPUs", "bus", "all-reduce of a step, ms", "backward, ms", "not hidden, ms", "efficiency"]
        return Table("More GPUs, calculated", f"{IN_WORDS}\n\n{report.markdown(header, rows)}", figures)


IN_WORDS = (
    "Nothing here was run: buckets of the gradients as LibTorch fills them (the first of 1 MiB, then 25 MiB, from the last layer on), "
    "each sent as soon as backward has come so far by the layers' operations, 2 (n - 1) / n of its bytes over the stated bus "
    "bandwidth; backward and step as measured on the one GPU, with the same batch on each. Latency, and waiting for a slower GPU, "
    "are not in it."
)


def wide_resnet_runs(found):
    """Returns the phases. A step replayed as a CUDA graph does not separate them: a run without graphs provides them
    then.
    """
    paths = found.get("fast_paths_wide_resnet", {})
    return [found.get("wide_resnet", []), paths.get(AS_IT_IS, []), paths.get("trainer.cuda_graph=off", [])]


def step_times(candidates, batch):
    """Returns the seconds of a step, and of backward in it, from the first runs that separate phases; None if there are
    none.
    """
    for results in candidates:
        if any(result.summary.get("graph_seconds") for result in results):
            continue
        shares = [result.summary["backward_seconds"] / result.summary["step_seconds"] for result in results]
        if shares and statistics.median(shares) >= LEAST_SHARE:
            step = statistics.median(batch / result.images_per_second for result in results)
            return step, step * statistics.median(shares)
    return None


def rows_of(name, cost, times, figures):
    step, backward = times
    filled = calculation.buckets(cost.layers)
    for gpus in GPUS:
        for bus, bandwidth in calculation.BUS_BANDWIDTHS.items():
            one = calculation.exchange(filled, gpus, bandwidth, backward, step)
            figures.append({"gpus": gpus, "bus": bus, "total_seconds": one.total_seconds, "shown_seconds": one.shown_seconds,
                            "efficiency": one.efficiency})  # fmt: skip
            numbers = [f"{1e3 * seconds:.2f}" for seconds in (one.total_seconds, backward, one.shown_seconds)]
            yield [name, gpus, bus, *numbers, f"{100 * one.efficiency:.1f} %"]

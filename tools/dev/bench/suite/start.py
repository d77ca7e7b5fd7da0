"""Table: command to first step of 1, 2, 4 ... workers on this machine, beside torchrun with the plain script."""

from suite import comparison, machine, pairs, report

TITLE = "Starting workers"
WORKERS = [1, 2, 4, 8, 16, 32]
SHARE_OF_MEMORY = 0.85  # of what is free: no more workers than it holds
GLOBAL_BATCH = 320


def measure(options):
    rows, figures = [], {}
    with comparison.all_sides(options, ["plain"]) as those:
        largest = {}  # worker of each side so far, bytes
        for workers in WORKERS:
            those = [side for side in those if fits(largest.get(side.name, 0) * workers)]
            if not those:
                break
            job = comparison.job_of(options, workers=workers, threads=1, global_batch=GLOBAL_BATCH, steps=2, warm_up=1)
            results = pairs.alternate(those, job, options.pairs, options.timeout)
            seconds = {side.name: [one.first_step_seconds for one in ones] for side, ones in zip(those, results, strict=True)}
            for side, ones in zip(those, results, strict=True):
                largest[side.name] = max(one.peak_rss_bytes for one in ones)
            figures[workers] = seconds
            rows.append(row(workers, seconds))
    text = (
        f"convnet_bn on MNIST, one thread for each worker, global batch {GLOBAL_BATCH}: from the start of the command to the end of the "
        f"first step, s. As many workers as the memory holds. Rounds: {options.pairs}. Median (least .. most); ratios within a round.\n\n"
    )
    return text + report.markdown(["workers", "ddprun", "torchrun, plain script", "ddprun faster by"], rows), figures


def fits(size):
    return size <= SHARE_OF_MEMORY * machine.free_bytes()


def row(workers, seconds):
    if "plain" not in seconds:
        return [workers, report.show(seconds["ddprun"], 2), "too large for this machine", ""]
    ratio = report.ratios(seconds["plain"], seconds["ddprun"])
    return [workers, report.show(seconds["ddprun"], 2), report.show(seconds["plain"], 2), report.show(ratio, 2)]

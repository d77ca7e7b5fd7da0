"""ddprun beside the sides in Python: runs them in turn, and shows figures of all with their ratios."""

import contextlib
import dataclasses
import statistics
import tempfile

from suite import mnist_data, pairs, peers, report, sides


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number of sides.Result, and what ddprun should reach against peers: {name: ratio}, the larger the better for it."""

    key: str
    text: str
    digits: int = 0
    scale: float = 1.0
    more_is_better: bool = False
    targets: dict = dataclasses.field(default_factory=dict)


SPEED = Figure("images_per_second", "training, images/s", more_is_better=True, targets={"plain": 1.6, "expert": 1.1})
FROM_START = Figure("images_per_second_from_start", "the same, from the first step on", more_is_better=True)
START = Figure("first_step_seconds", "command to first step, s", 2, targets={"plain": 3.3})
WHOLE = Figure("total_seconds", "whole command, s", 2)
MEMORY = Figure("peak_rss_bytes", "resident memory per worker, MB", scale=1e-6, targets={"plain": 1.7})

SAME_ACCURACY = 0.015  # shares of the test images that differ by no more are one result: dropout and the order of samples differ


@contextlib.contextmanager
def all_sides(options, names, our_words=(), their_words=()):
    """ddprun first."""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        data = mnist_data.lay_out(folder)
        others = [peers.PEERS[name](data, options.num_workers, their_words) for name in names]
        yield [sides.Ddprun(options.program, words=our_words), *others]


def job_of(options, **changes):
    job = sides.Job(
        workers=options.workers,
        threads=options.threads,
        global_batch=options.global_batch,
        steps=options.steps,
        warm_up=options.warm_up,
        device=options.device,
    )
    return dataclasses.replace(job, **changes)


def compare(options, job, names, figures, our_words=(), their_words=()):
    """The markdown, and the numbers."""
    with all_sides(options, names, our_words, their_words) as those:
        results = pairs.alternate(those, job, options.pairs, options.timeout)
    by_name = dict(zip((side.name for side in those), results, strict=True))
    rows = [row for figure in figures for row in rows_of(figure, by_name)]
    correct = [report.show([result.test_correct for result in ones]) for ones in results]
    table = report.markdown(["", *by_name], [*rows, ["test images correct", *correct]])
    numbers = {name: [dataclasses.asdict(result) for result in ones] for name, ones in by_name.items()}
    return f"{in_words(job, options.pairs)}\n\n{table}{of_other_accuracy(by_name)}", {"job": dataclasses.asdict(job), "results": numbers}


def rows_of(figure, by_name):
    """The figure itself, ddprun's gain over each other side round by round, and the targets where there are some."""
    values = {name: [getattr(result, figure.key) for result in results] for name, results in by_name.items()}
    ours, *others = values.values()
    gains = [report.ratios(ours, theirs) if figure.more_is_better else report.ratios(theirs, ours) for theirs in others]
    word = "faster" if figure.more_is_better or figure.text.endswith(", s") else "smaller"
    yield [figure.text, *(report.show(one, figure.digits, figure.scale) for one in values.values())]
    yield [f"ddprun {word} by a factor of", "", *(report.show(gain, 2) for gain in gains)]
    goals = [figure.targets.get(name) for name in by_name]
    if any(goals):
        yield ["target", *(f"at least {goal}" if goal else "" for goal in goals)]


def of_other_accuracy(by_name):
    """A warning, where a side in Python has not learnt what ddprun has: then the ratios compare different trainings."""
    shares = {name: statistics.median(result.test_correct for result in ones) / sides.TEST_IMAGES for name, ones in by_name.items()}
    ours = next(iter(shares.values()))
    others = [f"{name} {100 * share:.2f} %" for name, share in shares.items() if abs(share - ours) > SAME_ACCURACY]
    if not others:
        return ""
    return f"\n\n**Not the same accuracy**: ddprun {100 * ours:.2f} %, {', '.join(others)} of the test images."


def in_words(job, rounds):
    return (
        f"{job.model}, {job.precision}, MNIST, workers: {job.workers} on {job.device}, threads of each: {job.threads}, global "
        f"batch {job.global_batch}, {job.steps} steps (speed: after the first {job.warm_up}); rounds of one run of each side, in "
        f"turn: {rounds}. Median (least .. most); ratios within a round."
    )

"""Table: what checkpoints cost training, ddprun's written beside it or with training waiting, and torch.save's."""

import statistics
import tempfile

from suite import comparison, mnist_data, pairs, peers, report, sides

TITLE = "Checkpoints beside training"
EVERY = 20  # steps between two checkpoints
HIDDEN = (512, 2048)  # of an mlp: 0.4 and 1.6 million parameters, each with its momentum
WAYS = {
    "ddprun: none": ["checkpoint.every=never"],
    "ddprun: beside training": [f"checkpoint.every={EVERY}st", "checkpoint.async=true"],
    "ddprun: training waits": [f"checkpoint.every={EVERY}st", "checkpoint.async=false"],
}
PEER_WAYS = {"plain: none": [], "plain: torch.save": [f"--save-every={EVERY}"]}


def measure(options):
    rows, figures = [], {}
    job = comparison.job_of(options, model="mlp", warm_up=EVERY // 2)
    for hidden in HIDDEN:
        with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
            ways = all_ways(options, mnist_data.lay_out(folder), hidden)
            results = pairs.alternate(ways, job, options.pairs, options.timeout)
        by_name = dict(zip((way.name for way in ways), results, strict=True))
        figures[f"mlp_{hidden}"] = {name: [result.loop_seconds for result in ones] for name, ones in by_name.items()}
        rows += [row(hidden, name, by_name) for name in by_name]
    text = (
        f"mlp on MNIST, {options.workers} workers with {options.threads} thread(s) each, {options.steps} steps of {options.global_batch} "
        f"images, a checkpoint every {EVERY}: seconds of these steps with all that is between them, and from the end of a step until its "
        "checkpoint is written: ddprun's has its digests and is flushed to the disk, torch.save leaves that to the system. Rounds of one "
        f"run of each: {options.pairs}. Median (least .. most); ratios within a round, to the same program without checkpoints.\n\n"
    )
    return text + report.markdown(["hidden", "", "seconds", "/ none", "written after, s"], rows), figures


def all_ways(options, data, hidden):
    model = [f"model.hidden={hidden}", "checkpoint.keep=1000"]
    ours = [sides.Ddprun(options.program, name=name, words=[*model, *words]) for name, words in WAYS.items()]
    return ours + [
        peers.Plain(data, options.num_workers, [f"--hidden={hidden}", *words], name) for name, words in PEER_WAYS.items()
    ]


def row(hidden, name, by_name):
    seconds = [result.loop_seconds for result in by_name[name]]
    none = f"{name.split(':')[0]}: none"
    if name == none:
        return [hidden, name, report.show(seconds, 2), "", ""]
    ratios = report.ratios(seconds, [result.loop_seconds for result in by_name[none]])
    written = [statistics.median(result.save_seconds) for result in by_name[name]]
    return [hidden, name, report.show(seconds, 2), report.show(ratios, 2), report.show(written, 3)]

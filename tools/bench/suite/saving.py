"""Table: what checkpoints cost training, written beside it (checkpoint.async) and with training waiting."""

import json
import pathlib
import tempfile

from suite import process, report

TITLE = "Checkpoints beside training"
EVERY = 20  # steps between two checkpoints
HIDDEN = (512, 2048)  # of an mlp: 1.6 and 6.5 million parameters, each with its momentum
WAYS = {
    "none": ["checkpoint.every=never"],
    "beside": [f"checkpoint.every={EVERY}st", "checkpoint.async=true"],
    "waiting": [f"checkpoint.every={EVERY}st", "checkpoint.async=false"],
}


def measure(options):
    rows, figures = [], {}
    for hidden in HIDDEN:
        seconds = {way: [] for way in WAYS}
        for _ in range(options.pairs):
            for way, words in WAYS.items():
                seconds[way].append(train(options, hidden, words))
        figures[f"mlp_{hidden}"] = seconds
        costs = [report.show(report.ratios(seconds[way], seconds["none"]), 2) for way in ("beside", "waiting")]
        rows.append([hidden, *(report.show(seconds[way], 2) for way in WAYS), *costs])
    text = (
        f"mlp on MNIST, {options.workers} workers with one thread each, {options.steps} steps of {options.global_batch} images, a "
        f"checkpoint every {EVERY}: seconds of these steps with all that is between them. {options.pairs} rounds of one run of each, "
        "median (least .. most); ratios within a round.\n\n"
    )
    header = ["hidden", "no checkpoints", "beside", "waiting", "beside / none", "waiting / none"]
    return text + report.markdown(header, rows), figures


def train(options, hidden, words):
    """Seconds from the first row of training to the last."""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        run_dir = pathlib.Path(folder) / "run"
        command = [str(options.program), "experiments/mnist.yaml", "model=mlp", f"model.hidden={hidden}", "dataset.validation=0",
                   "~early_stopping", "trainer.max_epochs=1", f"trainer.max_steps={options.steps}",
                   f"trainer.global_batch={options.global_batch}", "trainer.log_every=10", "trainer.eval_every=never",
                   f"launch.workers={options.workers}", "launch.threads=1", f"launch.device={options.device}",
                   f"run.dir={run_dir}", *words]
        process.run(command, {}, folder, options.timeout)
        rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    times = [row["time"] for row in rows if row["split"] == "train"]
    return times[-1] - times[0]

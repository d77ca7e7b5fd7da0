"""Table: what rows of metrics cost training, one of every step, at some thousand steps a second."""

import json
import pathlib
import tempfile

from suite import process, report

TITLE = "Rows of every step"
STEPS = 15_000
WAYS = {
    "one row": ["loggers=[jsonl]", f"trainer.log_every={STEPS}"],
    "jsonl": ["loggers=[jsonl]", "trainer.log_every=1"],
    "csv, jsonl, tensorboard": ["loggers=[csv, jsonl, tensorboard]", "trainer.log_every=1"],
    "jsonl, mlflow (server away)": ["loggers=[jsonl, {plugin: mlflow, uri: 'http://127.0.0.1:9'}]", "trainer.log_every=1"],
}


def measure(options):
    seconds = {way: [] for way in WAYS}
    for _ in range(options.pairs):
        for way, words in WAYS.items():
            seconds[way].append(train(options, words))
    rows = [[way, report.show([1e6 * value / STEPS for value in times], 0), report.show(report.ratios(times, seconds["one row"]), 3)]
            for way, times in seconds.items()]
    text = (
        f"One linear layer on digits, one worker with one thread, {STEPS:,} steps of two images: microseconds of a step. {options.pairs} "
        "rounds of one run of each, median (least .. most); ratios within a round. The loggers write from threads of their own.\n\n"
    )
    return text + report.markdown(["logged", "step", "/ one row"], rows), seconds


def train(options, words):
    """Seconds in training steps."""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        run_dir = pathlib.Path(folder) / "run"
        command = [str(options.program), "experiments/digits.yaml", "model=mlp", "model.layers=0", "dataset.train_size=2000",
                   "dataset.val_size=2", "dataset.test_size=2", "~early_stopping", "trainer.max_epochs=1000",
                   f"trainer.max_steps={STEPS}", "trainer.global_batch=2", "trainer.eval_every=never", "checkpoint.every=never",
                   "launch.workers=1", "launch.threads=1", f"launch.device={options.device}", f"run.dir={run_dir}", *words]
        process.run(command, {}, folder, options.timeout)
        return json.loads((run_dir / "summary.json").read_text())["train_seconds"]

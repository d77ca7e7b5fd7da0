"""Table: what rows of metrics cost training, one of every step, at some thousand steps a second."""

import pathlib
import tempfile

import ddprun
from suite import process, report

TITLE = "Rows of every step"
STEPS = 15_000
WAYS = {
    "one row": ["loggers=[jsonl]", f"trainer.log_every={STEPS}"],
    "jsonl": ["loggers=[jsonl]", "trainer.log_every=1"],
    "csv, jsonl, tensorboard": ["loggers=[csv, jsonl, tensorboard]", "trainer.log_every=1"],
}


def measure(options):
    runs = {way: [] for way in WAYS}
    for number in range(options.pairs):
        ways = list(WAYS.items())
        for way, words in ways if number % 2 == 0 else reversed(ways):
            runs[way].append(train(options, words))
    times = {way: [run["train_seconds"] for run in ones] for way, ones in runs.items()}
    rows = []
    for way, ones in runs.items():
        in_thread = [1e6 * run["logging_seconds"] / STEPS for run in ones]
        rows.append([way, report.show([1e6 * value / STEPS for value in times[way]], 0),
                     report.show(report.ratios(times[way], times["one row"]), 3), report.show(in_thread, 1)])
    text = (
        f"One linear layer on digits, one worker with one thread, {STEPS:,} steps of two images: microseconds of a step. {options.pairs} "
        "rounds of one run of each, every other one backwards, median (least .. most); ratios within a round. The loggers write from "
        "threads of their own; the last column is what the training thread itself spends on rows in a step, with the check of each "
        "step's loss that it owes in any case.\n\n"
    )
    return text + report.markdown(["logged", "step", "/ one row", "training thread"], rows), runs


def train(options, words):
    """The summary of a run."""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        run_dir = pathlib.Path(folder) / "run"
        command = [str(options.program), "experiments/digits.yaml", "model=mlp", "model.layers=0", "dataset.train_size=2000",
                   "dataset.val_size=2", "dataset.test_size=2", "~early_stopping", "trainer.max_epochs=1000",
                   f"trainer.max_steps={STEPS}", "trainer.global_batch=2", "trainer.eval_every=never", "checkpoint.every=never",
                   "launch.workers=1", "launch.threads=1", f"launch.device={options.device}", f"run.dir={run_dir}", *words]
        process.run(command, {}, folder, options.timeout)
        return ddprun.run(run_dir).summary

# SPDX-License-Identifier: MIT
"""What the tests of tools/follow share: starting it, made-up folders of runs, what has to arrive."""

import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOOL = HERE.parents[1] / "tools/follow"
sys.path[:0] = [str(HERE.parent / "end_to_end"), str(TOOL.parent / "lib"), str(HERE.parents[1] / "sdk/python")]

from command import SMALL, CommandTest  # noqa: E402

WORDS = [
    *SMALL, "model=mlp", "loggers=[jsonl]", "objective.metrics=[accuracy, confusion]", "checkpoint.every=5st",
    "predictions={num_batches_to_log: 1, log_images_per_batch: 12}", "launch.workers=2",
]  # fmt: skip
ABOUT = ("time", "attempt", "split", "epoch", "step", "samples", "nonfinite")


def metrics_line(step, attempt=0, split="train", **metrics):
    place = {"attempt": attempt, "split": split, "epoch": 1, "step": step, "samples": 8 * step}
    return {"time": 1700000000.5 + step} | place | metrics


def table_line(kind, split="val", **content):
    return {"kind": kind, "attempt": 0, "split": split, "epoch": 1, "step": 9} | content


class FollowTest(CommandTest):
    tracker = "wandb"

    def words(self, *arguments):
        return "--to", self.tracker, "--poll", "0.05", *arguments

    def follow(self, *arguments, env=None):
        return self.start_program(sys.executable, "-B", TOOL, *self.words(*arguments), env=env)

    def followed(self, *arguments, code=0, env=None):
        return self.to_end(self.follow(*arguments, env=env), code)

    def to_end(self, running, code=0):
        self.assertEqual(running.wait(), code, running.text())
        return running

    def sent(self, *arguments):
        """What W&B has after the run was sent once more."""
        from wandb_runs import WandbRun

        self.followed(self.run_dir, "--offline", "--once", *arguments)
        return WandbRun(self.run_dir)

    def fabricate(self, status="completed", **files):
        """A run's folder with these lines in its files."""
        self.run_dir = self.folder / "run"
        self.run_dir.mkdir(exist_ok=True)
        (self.run_dir / "config.yaml").write_text("name: made\nseed: 1\n")
        if status:
            summary = {"status": status, "attempt": 0, "stop_reason": "so", "best": {"val/loss": 0.5}, "metrics": {"val/loss": 1}}
            (self.run_dir / "summary.json").write_text(json.dumps(summary))
        for name, lines in files.items():
            self.append(name, lines)

    def append(self, name, lines):
        with open(self.run_dir / f"{name}.jsonl", "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def assert_rows_arrived(self, found, lines):
        """The history rows that are made of lines of metrics.jsonl, value for value."""
        rows = [row for row in found.history if "samples" in row]
        expected = []
        for line in lines:
            bad = line.get("nonfinite", [])
            place = {name: line[name] for name in ("step", "epoch", "samples", "attempt")}
            values = {name: math.nan if name in bad else value for name, value in line.items() if name not in ABOUT}
            expected.append(place | {f"{line['split']}/{name}": value for name, value in values.items()})
        rows = [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]
        self.assertEqual([text(row) for row in rows], [text(row) for row in expected])


def text(row):
    """So that NaN equals NaN, and 1 equals 1.0."""
    return json.dumps({name: float(value) for name, value in row.items()}, sort_keys=True)

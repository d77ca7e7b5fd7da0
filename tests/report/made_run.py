# SPDX-License-Identifier: MIT
"""A run folder with everything that one can hold, made up: for tests of what reads them, and to look at reports.

python3 tests/report/made_run.py FOLDER [--steps 2000] [--classes 10] [--ranks 4] [--seed 1]
"""

import argparse
import json
import math
import pathlib
import random
import struct
import zlib

START = 1_790_000_000.0
STEP_SECONDS = 0.05
TENSORS = {"conv1.weight": 0.2, "conv1.bias": 0.05, "fc.weight": 0.03}

CONFIG = """\
name: made            # /srv/configs/experiments/made.yaml:8:7
seed: 42              # /srv/configs/experiments/made.yaml:9:7
model:                # /srv/configs/experiments/made.yaml:11:12
  plugin: convnet     # /srv/configs/model/convnet.yaml:2:9
  channels:           # /srv/configs/model/convnet.yaml:3:1
    - 20              # /srv/configs/model/convnet.yaml:3:12
    - 50              # /srv/configs/model/convnet.yaml:3:16
optimizer:            # /srv/configs/experiments/made.yaml:12:1
  plugin: sgd         # /srv/configs/optimizer/sgd.yaml:2:9
  lr: {rate:<15} # command line: optimizer.lr={rate}
trainer:              # /srv/configs/experiments/made.yaml:13:1
  max_steps: {steps:<8} # command line: trainer.max_steps={steps}
launch:               # default
  workers: {ranks:<10} # command line: launch.workers={ranks}
"""
DIFF = "--- a/model.cpp\n+++ b/model.cpp\n@@ -1 +1 @@\n-int hidden = 64;\n+int hidden = 128;  // <b>wider</b>\n"
ENVIRONMENT = {
    "time": "2026-09-21T14:53:20+0000", "host": "node17", "system": "Linux 6.1.0 x86_64",
    "folder": "/home/user/project",
    "arguments": ["ddprun", "experiments/made.yaml", "optimizer.lr=0.01"], "memory": "792384 MB",
    "cpu": {"model": "AMD EPYC 9654", "count": 192, "allowed": 48}, "driver": "NVRM version: 570.86",
    "gpus": [{"bus": "0000:17:00.0", "model": "NVIDIA H100", "uuid": "GPU-0"}],
    "versions": {"ddprun": "0.1.0", "libtorch": "2.11.0"},
    "variables": {"OMP_NUM_THREADS": "4", "NCCL_DEBUG": "WARN"},
    "plugins": [{"file": "/opt/ddprun/lib/ddprun/plugins/models/convnet.so", "sha256": "ab" * 32}],
    "git": {"sha": "0123456789abcdef0123456789abcdef01234567", "dirty": True, "status": " M model.cpp\n", "diff": DIFF},
}  # fmt: skip


def png(width, height, pixel):
    """A grey picture; pixel(x, y) is 0 to 255."""
    rows = b"".join(b"\0" + bytes(pixel(x, y) for x in range(width)) for y in range(height))

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class MadeRun:
    """Two attempts: the first is cut off at 60 % and had continued beyond the checkpoint that the second begins at."""

    def __init__(self, folder, steps=2000, classes=10, ranks=4, seed=1, names=None):
        self.folder = pathlib.Path(folder)
        self.steps, self.ranks = steps, ranks
        self.names = names or [str(index) for index in range(classes)]
        self.random = random.Random(seed)
        self.rate = 0.01 * seed
        self.epoch_steps = max(steps // 10, 1)

    def time(self, step, attempt):
        return START + 5 + step * STEP_SECONDS + attempt * 45

    def epoch(self, step):
        return (step - 1) // self.epoch_steps + 1

    def place(self, step, attempt, **rest):
        return {
            "time": round(self.time(step, attempt), 3),
            "attempt": attempt,
            "epoch": self.epoch(step),
            "step": step,
        } | rest

    def write(self):
        for name in ("logs", "checkpoints", "images/val"):
            (self.folder / name).mkdir(parents=True)
        self.write_metrics()
        self.write_tables()
        self.write_events()
        self.write_record()
        self.write_checkpoints()
        return self.folder

    def write_lines(self, name, rows):
        with open(self.folder / name, "w") as file:
            file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)

    # metrics.jsonl

    def attempts(self):
        """(attempt, its steps)."""
        cut, back = self.steps * 6 // 10 + self.epoch_steps // 2, self.steps * 6 // 10
        return ((0, range(1, cut + 1)), (1, range(back + 1, self.steps + 1)))

    def train_row(self, step, attempt):
        share = step / self.steps
        loss = 2.3 * math.exp(-4 * share) + 0.05 + abs(self.random.gauss(0, 0.06))
        row = self.place(
            step,
            attempt,
            split="train",
            samples=step * 64,
            loss=loss,
            accuracy=min(1.0, 1 - loss / 2.6 + self.random.gauss(0, 0.01)),
            grad_norm=abs(self.random.gauss(1.2, 0.4)),
            lr=self.rate * (0.5 + 0.5 * math.cos(math.pi * share)),
            samples_per_second=64 / STEP_SECONDS * self.random.gauss(1, 0.03),
        )
        if step == self.steps // 3:
            row["loss"] = 40.0  # a spike of one step
        if step in (self.steps // 4, self.steps // 4 + 1):
            row |= {"loss": None, "grad_norm": None, "nonfinite": ["loss", "grad_norm"]}
        return row

    def val_row(self, step, attempt, split="val"):
        share = step / self.steps
        loss = 2.2 * math.exp(-3.6 * share) + 0.09
        return self.place(
            step, attempt, split=split, samples=step * 64, loss=loss, accuracy=1 - loss / 2.8, top2=1 - loss / 6
        )

    def system_row(self, step, attempt):
        parts = {"data": 0.002, "forward": 0.014, "backward": 0.021, "wait": 0.006, "optimizer": 0.004, "other": 0.003}
        seconds = {f"{name}_seconds": abs(self.random.gauss(mean, mean / 8)) for name, mean in parts.items()}
        total = sum(seconds.values())
        return self.place(
            step,
            attempt,
            split="system",
            samples=step * 64,
            step_seconds=total,
            **seconds,
            slowest_rank=self.random.randrange(self.ranks),
            slowest_rank_seconds=total * 1.15,
            rss_bytes=1.9e9 + 1e5 * step,
            cpu_percent=self.random.gauss(96, 2),
            gpu_memory_bytes=11.2e9,
            gpu_percent=self.random.gauss(88, 4),
        )

    def metric_rows(self):
        for attempt, steps in self.attempts():
            for step in steps:
                yield self.train_row(step, attempt)
                if step % max(self.epoch_steps // 8, 1) == 0:
                    yield self.system_row(step, attempt)
                if step % self.epoch_steps == 0:
                    yield self.val_row(step, attempt)
        yield self.val_row(self.steps, 1, "test")

    def write_metrics(self):
        self.write_lines("metrics.jsonl", self.metric_rows())

    # tables.jsonl

    def table(self, kind, split, step, **content):
        attempt = 0 if step <= self.steps * 6 // 10 else 1
        return {"kind": kind, "attempt": attempt, "split": split, "epoch": self.epoch(step), "step": step, **content}

    def confusion(self, split):
        size = len(self.names)
        counts = [[0] * size for _ in range(size)]
        for truth in range(size):
            for _ in range(1000 // max(size // 10, 1)):
                sure = self.random.random() < 0.93
                guess = truth if sure else (truth + self.random.choice((1, 1, 1, 2, 5))) % size
                counts[truth][guess] += 1
        return self.table("confusion", split, self.steps, classes=self.names, counts=counts)

    def prediction(self, sample):
        truth = sample % len(self.names)
        guess = truth if sample % 4 else (truth + 3) % len(self.names)
        scores = [self.random.random() * 0.1 for _ in self.names]
        scores[guess] = 0.4 + self.random.random() * 2
        total = sum(scores)
        image = f"images/val/{sample}.png"
        angle = truth * 0.7
        stripes = png(28, 28, lambda x, y: int(127 + 127 * math.sin(0.6 * (x * math.cos(angle) + y * math.sin(angle)))))
        (self.folder / image).write_bytes(stripes)
        return {
            "id": sample,
            "truth": truth,
            "guess": guess,
            "scores": [score / total for score in scores],
            "image": image,
        }

    def histogram(self, name, spread, step):
        edges = [spread * (index / 16 - 2) for index in range(65)]
        center = spread * 0.3 * math.sin(step / self.steps * 3)
        width = spread * (0.3 + 0.4 * step / self.steps)
        counts = [int(2000 * math.exp(-(((edge - center) / width) ** 2) / 2)) for edge in edges[1:]]
        return {
            "name": name,
            "count": sum(counts),
            "nonfinite": 0,
            "min": edges[0],
            "max": edges[-1],
            "mean": center,
            "stddev": width,
            "edges": edges,
            "counts": counts,
        }

    def tables(self):
        evaluations = range(self.epoch_steps, self.steps + 1, self.epoch_steps)
        for step in evaluations:
            yield self.table(
                "histograms",
                "",
                step,
                histograms=[
                    self.histogram(f"{group}/{name}", spread * scale, step)
                    for name, spread in TENSORS.items()
                    for group, scale in (("weights", 1), ("gradients", 0.01))
                ],
            )
        yield self.confusion("val")
        yield self.table(
            "predictions", "val", self.steps, classes=self.names, rows=[self.prediction(sample) for sample in range(32)]
        )
        yield self.confusion("test")

    def write_tables(self):
        self.write_lines("tables.jsonl", self.tables())

    # The rest

    def write_events(self):
        cut, back = self.attempts()[0][1][-1], self.attempts()[1][1][0] - 1
        events = [self.place(0, 0, kind="attempt", text=f"1 node, {self.ranks} workers") | {"time": START}]
        events += [
            self.place(step, int(step > back), kind="checkpoint", text=f"checkpoints/step_{step:08}")
            for step in range(self.epoch_steps, self.steps + 1, self.epoch_steps)
        ]
        events += [
            self.place(
                self.steps // 4,
                0,
                kind="nonfinite",
                text=f"loss is not finite at step {self.steps // 4}; batch skipped",
            ),
            self.place(0, 0, kind="failure", text="rank 2 was killed by SIGKILL") | {"time": self.time(cut, 0) + 1},
            self.place(0, 1, kind="attempt", text=f"1 node, {self.ranks} workers") | {"time": self.time(cut, 0) + 30},
            self.place(back, 1, kind="resumed", text=f"from checkpoints/step_{back:08}"),
            self.place(0, 1, kind="end", text="completed: all steps are done") | {"time": self.time(self.steps, 1) + 2},
        ]
        self.write_lines("events.jsonl", sorted(events, key=lambda event: event["time"]))

    def write_record(self):
        own = {"optimizer.lr": self.rate, "trainer.max_steps": self.steps, "launch.workers": self.ranks}
        (self.folder / "config.yaml").write_text(CONFIG.format(rate=self.rate, steps=self.steps, ranks=self.ranks))
        (self.folder / "overrides.txt").write_text("".join(f"{key}={value}\n" for key, value in own.items()))
        (self.folder / ".attempts").write_text("2\n")
        for rank in range(self.ranks):
            (self.folder / "logs" / f"rank_{rank}.log").write_text("")
        (self.folder / "summary.json").write_text(json.dumps(self.summary(), indent=2))
        (self.folder / "environment.json").write_text(json.dumps(ENVIRONMENT, indent=2))

    def summary(self):
        best = self.val_row(self.steps, 1)
        counts = {"steps": self.steps, "epochs": self.steps / self.epoch_steps, "samples": self.steps * 64}
        seconds = {"total_seconds": self.time(self.steps, 1) - START + 2, "train_seconds": self.steps * STEP_SECONDS}
        return {
            "status": "completed", "stop_reason": "all steps are done", **counts, "world_size": self.ranks, "nodes": 1,
            "attempt": 1, **seconds, "samples_per_second": 64 / STEP_SECONDS,
            "metrics": {"val/accuracy": best["accuracy"], "test/accuracy": 0.9288},
            "best": {"val/loss": best["loss"], "val/accuracy": best["accuracy"], "test/accuracy": 0.9301},
            "best_step": self.steps // 2,
            "checkpoint": f"checkpoints/step_{self.steps:08}", "test_correct": 9288, "test_total": 10000,
        }  # fmt: skip

    def write_checkpoints(self):
        for step in (self.steps - self.epoch_steps, self.steps):
            folder = self.folder / "checkpoints" / f"step_{step:08}"
            folder.mkdir()
            (folder / "model.safetensors").write_bytes(bytes(4096))
            (folder / "manifest.json").write_text("{}")
        for link in ("best", "last"):
            (self.folder / "checkpoints" / link).symlink_to(f"step_{self.steps:08}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    for name, value in (("steps", 2000), ("classes", 10), ("ranks", 4), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    print(MadeRun(**vars(parser.parse_args())).write())


if __name__ == "__main__":
    main()

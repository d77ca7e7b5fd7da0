#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts what one training step makes a GPU and its host do, on pretend GPUs (README.md): what is informed of a run of 60 steps, less what is reported
of one of 40, so that nothing counts which both do at their start and their end.

    tests/pretend_gpu/step_counts.py [NETWORK...]

prints a table; gpt2 needs the Python package transformers. docs/benchmarks.md sums it up, and tests/pretend_gpu/step_counts_test.py holds what
it must show."""

import collections
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DDPRUN = os.environ.get("DDPRUN", ROOT / "build/release/bin/ddprun")
SHORT, LONG = 40, 60  # graphs are recorded by then, and the epoch is not over
BATCH = 16
QUIET = ["launch.device=cuda", "launch.workers=1", "launch.threads=1", "loggers=[csv]", "checkpoint.every=never",
         "trainer.eval_every=never", "trainer.log_every=1000", "trainer.system_metrics_seconds=0", "trainer.sanity_batches=0",
         "trainer.limit_test_batches=1", f"trainer.global_batch={BATCH}"]  # fmt: skip
DIGITS = ["experiments/digits.yaml", "~early_stopping", f"dataset.train_size={BATCH * LONG * 2}", "dataset.val_size=16", "dataset.test_size=16"]
SYMBOLS, CONTEXT = 50, 16
GPT2 = ["n_layer=2", "n_embd=32", "n_head=2", f"n_positions={CONTEXT}", f"vocab_size={SYMBOLS}", "bos_token_id=1", "eos_token_id=2"]
NETWORKS = {
    "convnet": [*DIGITS, "model=convnet"],
    "convnet_bn": [*DIGITS, "model=convnet_bn"],
    "resnet18": [*DIGITS, "model=resnet"],
    "transformer": ["experiments/text.yaml", "model.layers=2", "model.width=32", "model.heads=2", "dataset.context=32", "~schedule", "~early_stopping"],
    "gpt2": ["gpt2.yaml"],
}


def reported(command, trace, folder):
    """Returns how often the command's processes reported each (kind, name)."""
    environment = {**os.environ, "PRETEND_TRACE": str(trace), "PRETEND_GPUS": "1"}
    ran = subprocess.run([HERE / "run", *map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: ended with {ran.returncode}: {ran.stderr[-2000:]}")
    counts = collections.Counter()
    for file in trace.parent.glob(f"{trace.name}.*"):
        for line in file.read_text().splitlines():
            kind, name, *_ = line.split("\t")
            counts[kind, name] += 1
    return counts


def of_a_step(command_of, folder):
    """Returns the counts of one step; `command_of` gives the command of so many."""
    short, long = (reported(command_of(steps), folder / f"trace_{steps}", folder) for steps in (SHORT, LONG))
    found = {key: (long[key] - short[key]) / (LONG - SHORT) for key in long.keys() | short.keys()}
    return {key: count for key, count in sorted(found.items()) if count != 0}


def write_gpt2(folder):
    """Writes transformers' GPT-2 as an exported network, random symbols, and an experiment of them."""
    import numpy

    subprocess.run([ROOT / "tools/export_model", "transformers:GPT2LMHeadModel", f"--input={CONTEXT}:int64:{SYMBOLS}",
                    *(f"--set={setting}" for setting in GPT2), "--out=gpt2.pt2"], cwd=folder, check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    for name in ("input", "target"):
        numpy.save(folder / f"{name}.npy", numpy.random.default_rng(1).integers(0, SYMBOLS, (2 * BATCH * LONG, CONTEXT)))
    (folder / "gpt2.yaml").write_text(json.dumps({  # JSON is YAML
        "name": "gpt2", "model": {"plugin": "exported", "file": "gpt2.pt2"}, "optimizer": {"plugin": "adamw", "lr": 1e-3},
        "dataset": {"plugin": "tensors", "train": ["input.npy", "target.npy"], "classes": SYMBOLS, "symbols": True},
        "trainer": {"max_epochs": 1}}))  # fmt: skip


def training(words, graph, folder):
    """Returns the counts of a step of ddprun. Without threads that read ahead: how much page-locked memory these use depends on how far they get."""
    folder.mkdir()
    if words[0] == "gpt2.yaml":
        write_gpt2(folder)
    return of_a_step(lambda steps: [DDPRUN, *words, *QUIET, "trainer.prefetch_threads=0", f"trainer.cuda_graph={graph}",
                                    f"trainer.max_steps={steps}", f"run.dir={folder / str(steps)}"], folder)  # fmt: skip


def summed(counts, kind, name=None):
    return sum(count for (of, named), count in counts.items() if of == kind and name in (None, named))


def row(counts):
    """The columns of the table."""
    return [f"{number:g}" for number in (
        summed(counts, "launch"), summed(counts, "graph"), summed(counts, "replay"), summed(counts, "copy", "pinned"),
        summed(counts, "copy", "pageable"), summed(counts, "copy", "memset"), summed(counts, "host_wait"), summed(counts, "allocate"))]  # fmt: skip


def main():
    names = sys.argv[1:] or list(NETWORKS)
    if not sys.argv[1:] and not importlib.util.find_spec("transformers"):
        names.remove("gpt2")
        print("gpt2 is left out: this Python has no transformers", file=sys.stderr)
    if unknown := set(names) - set(NETWORKS):
        sys.exit(f"no network {', '.join(sorted(unknown))}; expected {', '.join(NETWORKS)}")
    print("| network | CUDA graph | operators | graphs | operators in it | copies, pinned | pageable | fills | host waits | allocations |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for graph in ("off", "on"):
                counts = training(NETWORKS[name], graph, pathlib.Path(folder) / f"{name}_{graph}")
                print(f"| {name} | {graph} | {' | '.join(row(counts))} |", flush=True)
                if os.environ.get("STEP_COUNTS_NAMES"):
                    for (kind, what), count in counts.items():
                        print(f"    {kind} {what}: {count:g}")


if __name__ == "__main__":
    main()

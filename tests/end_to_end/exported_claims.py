# SPDX-License-Identifier: MIT
"""What ddprun promises of every network, shown for five that are widely used: python exported_claims.py prints a table. It needs what
exported_zoo.py needs. Dropout is off, for each worker draws its own."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import torch

from command import differences
from eager import Training, losses_of, weights_of
from exported_zoo import ZOO, make

BATCH = 12
FIVE = {
    "resnet18": ("torchvision:resnet18", []),
    "vit_b_16": ("torchvision:vit_b_16", []),
    "GPT-2": ("transformers:GPT2LMHeadModel", ["resid_pdrop=0.0", "embd_pdrop=0.0", "attn_pdrop=0.0"]),
    "BERT with a mask": ("transformers:BertForSequenceClassification", ["hidden_dropout_prob=0.0", "attention_probs_dropout_prob=0.0"]),
    "LSTM": ("odd:recurrent", []),
}


class Network:
    def __init__(self, name, settings, folder):
        inputs, usual = ZOO[name]
        self.folder = folder
        module = make(name, [*usual, *settings])
        for part in module.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
            if isinstance(part, torch.nn.LSTM):
                part.dropout = 0.0
        self.training = Training(module, inputs, folder, batch=BATCH)
        self.training.export(check=False)
        self.training.experiment()

    def start(self, run, *words):
        command = [os.environ["DDPRUN"], "net.yaml", f"run.dir={run}", "trainer.find_unused_parameters=true", *words]
        return subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)

    def run(self, run, *words):
        """The folder of a run that has come to its end."""
        process = self.start(run, *words)
        _, error = process.communicate()
        if process.returncode:
            raise RuntimeError(error.strip().splitlines()[0])
        return self.folder / run

    def killed_and_resumed(self):
        """A run that was killed once it had a checkpoint, and then went on."""
        process = self.start("killed", "checkpoint.every=5st")
        checkpoint = self.folder / "killed/checkpoints/step_00000010"
        while not checkpoint.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        subprocess.run([os.environ["DDPRUN"], "resume", "killed"], cwd=self.folder, check=True, capture_output=True)
        if json.loads((self.folder / "killed/summary.json").read_text())["attempt"] < 1:
            raise RuntimeError("it had ended before it was killed")
        return self.folder / "killed"


def bits(run, other):
    mine, others = weights_of(run), weights_of(other)
    same = all(torch.equal(mine[name], others[name]) for name in mine)
    return "equal" if same and not differences(run, other) else "differ"


def distance(run, other):
    """The largest difference of any weight, beside the largest weight."""
    mine, others = weights_of(run), weights_of(other)
    names = [name for name in mine if mine[name].is_floating_point()]
    return max((mine[name] - others[name]).abs().max().item() / mine[name].abs().max().clamp(min=1e-2).item() for name in names)


def shards(network):
    """Whether 8 shards have the same bits on any number of workers."""
    for precision in ("fp32", "bf16"):
        words = ["trainer.shards=8", "trainer.max_steps=5", f"trainer.precision={precision}"]
        runs = [network.run(f"shards_{precision}_{count}", *words, f"launch.workers={count}") for count in (1, 2, 3, 4, 8)]
        if any(bits(runs[0], other) != "equal" for other in runs[1:]):
            return f"differ in {precision}"
    return "equal"


def row(name, settings):
    with tempfile.TemporaryDirectory() as folder:
        network = Network(name, settings, pathlib.Path(folder))
        together = ["trainer.sync_batchnorm=true", "trainer.max_steps=5"]  # ReLU magnifies rounding, where a value is nearly 0
        one = network.run("one", *together)
        others = [network.run(f"workers{count}", *together, f"launch.workers={count}") for count in (2, 3)]
        first = losses_of(one)[0]
        apart = max(abs(losses_of(other)[0] - first) / first for other in others), max(distance(one, other) for other in others)
        whole = network.run("whole", "checkpoint.every=5st")
        micro = "BatchNorm sees fewer samples" if name.endswith("resnet18") else f"{distance(whole, network.run('micro', 'trainer.micro_batch=4')):.0e}"
        ema = network.run("ema", "trainer.ema_decay=0.9")
        reduced = network.run("bf16", "trainer.precision=bf16")
        in_python = network.training.in_python(autocast=True)[0]
        print(f"| {apart[0]:.0e}, {apart[1]:.0e} | {bits(whole, network.killed_and_resumed())} | {'equal' if losses_of(reduced)[0] == in_python else 'differ'} "
              f"| {micro} | {bits(whole, ema)} | {shards(network)} |", flush=True)


def main():
    print("| network | 1, 2, 3 workers: first loss, weights after 5 steps | kill -9, resume | first loss in bf16 | micro-batches | with EMA "
          "| 8 shards on 1, 2, 3, 4, 8 workers |\n|---|---|---|---|---|---|---|")
    for label, (name, settings) in FIVE.items():
        print(f"| {label} ", end="", flush=True)
        row(name, settings)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""A small experiment on arrays that tests change, with the network of end_to_end/plugins/unsteady_model.cpp: four steps an epoch,
a digest and a checkpoint after each epoch."""

import os
import pathlib
import random
import re
import struct

from command import CommandTest
from init_test import npy

PLUGINS = pathlib.Path(os.environ["DDPRUN"]).resolve().parent.parent / "tests/flawed_plugins"
SAMPLES, INPUTS, CLASSES = 160, 24, 4
EXPERIMENT = f"""\
name: planted
plugin_path: {PLUGINS}
model: unsteady_model
dataset: {{plugin: tensors, train: [input.npy, target.npy], val_fraction: 0.2}}
optimizer: {{plugin: sgd, lr: 0.1, momentum: 0.9}}
trainer: {{max_steps: 12, global_batch: 32, log_every: 4, shards: 2}}
checkpoint: {{every: 4st, keep: 9}}
launch: {{workers: 1, device: cpu, threads: 1}}
loggers: [jsonl]
"""


class UnsteadyTest(CommandTest):
    def setUp(self):
        super().setUp()
        (self.folder / "e.yaml").write_text(EXPERIMENT)
        draw = random.Random(3)
        self.targets = bytearray(draw.randrange(CLASSES) for _ in range(SAMPLES))
        self.inputs = [draw.gauss(0, 1) + self.targets[i // INPUTS] for i in range(SAMPLES * INPUTS)]
        self.write_data()

    def write_data(self, name=""):
        (self.folder / f"input{name}.npy").write_bytes(npy("<f4", (SAMPLES, INPUTS), struct.pack(f"<{len(self.inputs)}f", *self.inputs)))
        (self.folder / f"target{name}.npy").write_bytes(npy("|u1", (SAMPLES,), bytes(self.targets)))

    def said(self, *words, code=0):
        """What the command prints in lines of 80 columns, those of a paragraph joined."""
        text = self.ddprun(*words, code=code).out()
        for line in text.splitlines():
            self.assertTrue(len(line) <= 80 or " " not in line.strip(), line)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        return re.sub(r"\n +", " ", text)

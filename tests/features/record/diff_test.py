# SPDX-License-Identifier: MIT
"""ddprun diff: where two runs part, and why. Differences are planted one at a time; each is named, whatever it is."""

import pathlib
import random
import re
import sys
import unittest

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "end_to_end"))

from command import DDPRUN, NIGHTLY, CommandTest, nightly  # noqa: E402

PLUGINS = DDPRUN.parent.parent / "tests/flawed_plugins"
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
CONVNET = ("dataset={plugin: digits, train_size: 160, val_size: 40, test_size: 40}", "model=convnet")
IN_STEP = r"made again, they part in step {}, "
OTHER_SAMPLES = "it trains on other samples: "
OTHER_NUMBERS = r"the network is given other numbers for {} of 32 samples \(input, target or extras\): \d+"
LEAVES = "what the step leaves, though the gradients are the same: "
OPERATOR = r"shard 0, operator \d+ of \d+: "
UNSTEADY = "run_b does not come to its own bits again: made twice they are "

# What is planted: in the second run, words, variables or what plant() knows; words of both; what diff says.
PLANTED = {
    "lr": (["optimizer.lr=0.11"], [], ["experiment: optimizer.lr is 0.1 and 0.11", IN_STEP.format(1) + LEAVES + "hidden.weight and 3"]),
    "momentum": (["optimizer.momentum=0.8"], [], ["optimizer.momentum is 0.9 and 0.8", IN_STEP.format(2) + LEAVES]),
    "weight_decay": (["optimizer.weight_decay=0.01"], [], ["optimizer.weight_decay is not there and 0.01", LEAVES]),
    "optimizer": (["optimizer={plugin: adamw, lr: 0.01}"], [], ["optimizer.plugin is sgd and adamw", LEAVES]),
    "seed": (["seed=7"], [], ["experiment: seed is ", IN_STEP.format(1) + r"what it begins with: hidden\.weight and "]),
    "schedule": (["schedule={name: cosine}"], [], ["schedule.name is not there and cosine", IN_STEP.format(2) + LEAVES]),
    "clip": (["trainer.clip_norm=0.001"], [], ["trainer.clip_norm is not there and 0.001", IN_STEP.format(1) + LEAVES]),
    "average": (["trainer.ema_decay=0.9"], [], ["trainer.ema_decay is not there and 0.9",
                                                LEAVES + "the first has nothing where the second has "]),
    "batch": (["trainer.global_batch=16"], [], ["trainer.global_batch is 32 and 16", OTHER_SAMPLES + ".* none only in the second"]),
    "order": (["trainer.shuffle=false"], [], ["trainer.shuffle is not there and false", OTHER_SAMPLES]),
    "fewer_samples": (["dataset.val_fraction=0.25"], [], ["dataset.val_fraction is 0.2 and 0.25", OTHER_SAMPLES]),
    "shards": (["trainer.shards=4"], [], ["trainer.shards is 2 and 4", "the batch is computed in 2 parts in the first and 4 in the second"]),
    "workers": (["launch.workers=2"], ["trainer.shards=0"], ["launch.workers is 1 and 2", "the batch is computed in 1 parts? in the first and 2"]),
    "objective": (["objective.label_smoothing=0.1"], [], ["objective.label_smoothing is not there and 0.1", OPERATOR]),
    "precision": (["trainer.precision=bf16"], [], ["trainer.precision is not there and bf16", OPERATOR + r".*aten::\w+ .*in the second"]),
    "frozen": (["pretrained.freeze=[hidden.*]"], [], ["pretrained.freeze is not there and ", IN_STEP.format(1)]),
    "network": (["model=mlp", "model.hidden=17"], [], ["unsteady_model and mlp", "build of mlp.so is not there", "begins with: "]),
    "instructions": ({"ATEN_CPU_CAPABILITY": "default"}, [], ["variables.ATEN_CPU_CAPABILITY is not there and default", IN_STEP.format(1)]),
    "onednn": ({"ONEDNN_MAX_CPU_ISA": "SSE41"}, CONVNET, [
        "variables.ONEDNN_MAX_CPU_ISA is not there and SSE41",
        OPERATOR + r"aten::\w*convolution.* \(conv\d.weight, conv\d.bias\).* they differ in \d+ of \d+ numbers, by up to .* in the last place\)"]),
    "mixup": (["trainer.mixup=0.3"], [], ["trainer.mixup is not there and 0.3", OTHER_NUMBERS.format(32)]),
    "scaled": (["model.way=scaled"], [], ["model.way is not there and scaled", OPERATOR + r"aten::\w+, which gives Float\[\]: they differ in 1 of 1"]),
    "unseeded": ([], ["model.way=random"], [UNSTEADY + "others each time", r"they part in step 1, shard 0, operator \d+ of \d+: aten::\w+, which"]),
    "clock": ([], ["model.way=clock"], [UNSTEADY + "others each time", r"they part in step 1, shard 0, operator \d+ of \d+: aten::\w+, which"]),
    "pixel": ("pixel", [], [OTHER_NUMBERS.format(1), "dataset.train"]),
    # (with a val of its own: what is held out depends on the classes)
    "label": ("label", ["dataset.val_fraction=0", "dataset.val=[input.npy, target.npy]"], [OTHER_NUMBERS.format(1), "dataset.train"]),
    "gradient": ("gradient", ["model.way=gradient", "trainer.shards=0"], [UNSTEADY + "the same"]),
    "weight": ("weight", ["model.way=weight", "trainer.shards=0"], [UNSTEADY + "the same"]),
}
SAMPLE = ("unseeded", "label", "gradient", "onednn")


class UnsteadyTest(CommandTest):
    """A small experiment on arrays that tests change, with the network of end_to_end/plugins/unsteady_model.cpp: four steps an epoch, a
    digest and a checkpoint after each epoch."""

    def setUp(self):
        super().setUp()
        (self.folder / "e.yaml").write_text(EXPERIMENT)
        draw = random.Random(3)
        self.targets = bytearray(draw.randrange(CLASSES) for _ in range(SAMPLES))
        self.inputs = [draw.gauss(0, 1) + self.targets[i // INPUTS] for i in range(SAMPLES * INPUTS)]
        self.write_data()

    def write_data(self, name=""):
        numpy.save(self.folder / f"input{name}.npy", numpy.array(self.inputs, "float32").reshape(SAMPLES, INPUTS))
        numpy.save(self.folder / f"target{name}.npy", numpy.frombuffer(self.targets, "uint8"))

    def said(self, *words, code=0):
        """What the command prints in lines of 80 columns, those of a paragraph joined."""
        text = self.ddprun(*words, code=code).out()
        for line in text.splitlines():
            self.assertTrue(len(line) <= 80 or " " not in line.strip(), line)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        return re.sub(r"\n +", " ", text)


class Diff(UnsteadyTest):
    def diff(self, first="run_a", second="run_b", code=1):
        return self.said("diff", first, second, code=code)

    def plant(self, change):
        """Makes the second run's difference. Returns its words and variables."""
        if isinstance(change, dict):
            return [], change
        if isinstance(change, list):
            return change, {}
        if change in ("pixel", "label"):
            return self.changed_data(change), {}
        fault = self.folder / "fault"
        fault.write_text("")
        return [], {"UNSTEADY_FAULT": str(fault)}

    def changed_data(self, what):
        if what == "pixel":
            self.inputs[17 * INPUTS + 5] += 1e-6
        else:
            self.targets[17] = (self.targets[17] + 1) % CLASSES
        self.write_data("_b")
        return ["dataset.train=[input_b.npy, target_b.npy]"]

    def assert_named(self, change, both, says):
        self.ddprun("e.yaml", *both, "run.dir=run_a")
        words, variables = self.plant(change)
        self.ddprun("e.yaml", *both, *words, "run.dir=run_b", env=variables)
        (self.folder / "fault").unlink(missing_ok=True)
        text = self.diff()
        for expected in says:
            self.assertRegex(text, expected)

    @nightly
    def test_planted_other_threads_whether_or_not_they_give_other_bits_here(self):
        for threads in (1, 4):
            self.ddprun("e.yaml", *CONVNET, "trainer.shards=0", f"run.dir=run_{threads}", f"launch.threads={threads}")
        compared = self.start("diff", "run_1", "run_4")
        self.assertIn(compared.wait(), (0, 1), compared.text())
        self.assertIn("experiment: launch.threads is 1 and 4\n", compared.out())
        if compared.wait() == 1:
            self.assertRegex(compared.out(), r"made again, they part in step \d+, the part of rank 0, operator")

    def test_planted_another_build_of_a_plugin_with_the_same_results(self):
        (self.folder / "plugins").mkdir()
        (self.folder / "plugins/unsteady_model.so").write_bytes((PLUGINS / "unsteady_model.so").read_bytes() + b"\0")
        self.ddprun("e.yaml", "run.dir=run_a")
        self.ddprun("e.yaml", "run.dir=run_b", "plugin_path=plugins")
        text = self.diff(code=0)
        self.assertIn("the same bits in all 3 digests that both have, up to step 12", text)
        self.assertRegex(text, r"environment: the build of unsteady_model.so is \w{12} and \w{12}")

    def test_planted_in_a_resumed_run(self):
        self.ddprun("e.yaml", "run.dir=run_a")
        self.ddprun("e.yaml", "run.dir=run_b", "trainer.max_steps=5")
        self.ddprun("resume", "run_b", "trainer.max_steps=12", "optimizer.lr=0.2")
        text = self.diff()
        self.assertIn("diff: the same bits up to step 4, other bits after step 8", text)
        self.assertRegex(text, "optimizer.lr is 0.1 and 0.2 .*" + UNSTEADY.removesuffix("made twice they are ")
                         + "its experiment was changed when it was resumed after step 5")

    def test_files_of_two_machines_are_compared_without_their_runs(self):
        self.ddprun("e.yaml", "run.dir=run_a")
        self.ddprun("e.yaml", "run.dir=run_b", "optimizer.weight_decay=1e-3")
        for name, words in {"a": ("run_a", "--step", "7"), "b": ("run_b", "--step", "7"), "other": ("run_a", "--step", "12"),
                            "two": ("run_a", "--step", "7", "--workers", "2")}.items():
            self.ddprun("replay", *words, "--out", f"{name}.json")
        self.assertIn("diff: the same bits in all operators of 3 steps, up to step 7\n", self.ddprun("diff", "a.json", "two.json").out())
        self.assertIn("the same bits in all operators of 3 steps", self.ddprun("diff", "run_a", "two.json").out())
        self.assertRegex(self.diff("a.json", "b.json"),
                         "they part in step 5, what it begins with: hidden.weight and .*weight_decay is not there and 1e-3")
        self.assertRegex(self.diff("run_b", "a.json"), "they part in step 5, what it begins with")
        self.assertIn("have no step in common", self.ddprun("diff", "a.json", "other.json", code=2).err())
        (self.folder / "a.json").write_text((self.folder / "a.json").read_text()[:-500])
        self.assertIn("a.json is no file of `ddprun replay --out`, or it is damaged", self.ddprun("diff", "a.json", "b.json", code=2).err())

    def test_what_cannot_be_compared_is_refused(self):
        self.ddprun("e.yaml", "run.dir=run_a")
        self.ddprun("e.yaml", "run.dir=run_b", "trainer.log_every=100", "checkpoint.every=5st", "trainer.max_steps=3")
        self.assertIn("no step has a digest in both runs", self.ddprun("diff", "run_a", "run_b", code=2).err())
        self.assertIn("none", self.ddprun("diff", "run_a", "none", code=2).err())
        self.ddprun("diff", "run_a", code=2)


def add_planted(name, change, both, says):
    def test(self):
        self.assert_named(change, both, says)

    setattr(Diff, f"test_planted_{name}", test)


for planted, (change, both, says) in PLANTED.items():
    if NIGHTLY or planted in SAMPLE:
        add_planted(planted, change, both, says)

if __name__ == "__main__":
    unittest.main()

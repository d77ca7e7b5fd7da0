# SPDX-License-Identifier: MIT
"""Samples that a class in Python makes: the same as from a file, and what is said where the class throws, hangs or dies."""

import signal
import sys
import unittest

import safetensors.numpy
import numpy

from command import CommandTest, losses_of

TRAIN, VAL, FEATURES, CLASSES, LATE = 90, 30, 5, 3, 17
WORDS = ("trainer.max_epochs=2", "trainer.global_batch=12", "trainer.log_every=1", "launch.workers=2")
CODE = f"""
import os, time
import numpy
from arrays import load  # beside it

class Data:
    classes = ["low", "middle", "high"]

    def __init__(self, split, scale, note="a text"):
        assert (scale, note) == (2, "a 'text': 1")
        self.input, self.target = load(split)
        self.targets = self.target.tolist()

    def __len__(self):
        return len(self.input)

    def __getitem__(self, index):
        print("sample", index)
        return self.input[index] * 0.5, int(self.target[index])

class Broken(Data):
    def __getitem__(self, index):
        if index == 17:
            how = os.environ["BROKEN"]
            if how == "throw":
                raise KeyError("no such picture")
            if how == "hang":
                time.sleep(1000)
            if how == "die":
                os._exit(3)
            if how == "close":
                os.close(3)
                time.sleep(1000)
            if how == "shape":
                return self.input[index][:2], 0
        return super().__getitem__(index)

class Slow(Data):
    def __getitem__(self, index):
        if index == {LATE}:
            open("wanted", "w").close()
            time.sleep(1000)
        return super().__getitem__(index)

class SlowToMake(Data):
    def __init__(self, split, scale, note):
        open("wanted", "w").close()
        time.sleep(1000)

class MadeTogether(Data):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        open(f"made_{{os.getpid()}}", "w").close()
        while len([name for name in os.listdir() if name.startswith("made_")]) < 3:
            time.sleep(0.01)

class Many(Data):
    def __getitem__(self, index):
        return {{"input": self.input[index] * 0.5, "target": self.target[index], "mask": self.input[index] > 0}}

class Unnamed(Data):
    classes = None

class Spelled(Data):
    classes = "ab"

class Twins(Data):
    classes = ["a", "b", "a"]
"""
NOISY = f"""
import random
import numpy
import torch
from data import Data

class Noisy(Data):
    def __getitem__(self, index):
        noise = random.gauss(0, 1) + numpy.random.normal(size={FEATURES}) + torch.randn({FEATURES}).numpy()
        return (self.input[index] * 0.5 + noise).astype("float32"), int(self.target[index])
"""
ARRAYS = """
import pathlib
import safetensors.numpy

def load(split):
    arrays = safetensors.numpy.load_file(pathlib.Path(__file__).parent / f"{split}.safetensors")
    return arrays["input"] * 2, arrays["target"]
"""


class PythonData(CommandTest):
    def setUp(self):
        super().setUp()
        self.write_arrays("train", TRAIN)
        self.write_arrays("val", VAL)
        (self.folder / "data.py").write_text(CODE)
        (self.folder / "arrays.py").write_text(ARRAYS)
        self.write("data", "{plugin: python, file: data.py, class: Data, processes: 2, arguments: {scale: 2, note: \"a 'text': 1\"}, "
                           f"python: {sys.executable}}}")

    def write_arrays(self, split, count, shift=0):
        values = numpy.random.default_rng(count).normal(size=(count, FEATURES)).astype("float32")
        safetensors.numpy.save_file({"input": values, "target": (values.argmax(1) + shift) % CLASSES}, self.folder / f"{split}.safetensors")

    def write(self, name, dataset):
        (self.folder / f"{name}.yaml").write_text(f"seed: 3\nmodel: mlp\ndataset: {dataset}\n"
                                                  "optimizer: {plugin: sgd, lr: 0.05}\nlaunch: {device: cpu, threads: 1}\n")

    def test_they_are_those_of_a_file(self):
        self.write("file", "{plugin: tensors, train: train.safetensors, val: val.safetensors}")
        file, run = (self.train(name, f"{name}.yaml", *WORDS) for name in ("file", "data"))
        self.assert_same_end(run, file)
        self.assertIn("sample", (run / "logs/rank_1.log").read_text())
        self.assertRegex(self.ddprun("data", "data.yaml", "dataset.class=Many").out(), r"middle +\d+ +\d+")
        self.ddprun("check", "data.yaml", "trainer.sampling={balance: class}")

    def test_what_it_draws_depends_on_the_epoch_and_the_sample_alone(self):
        (self.folder / "noisy.py").write_text(NOISY)
        noisy = ("data.yaml", *WORDS, "launch.workers=1", "checkpoint.every=4st", "dataset.file=noisy.py", "dataset.class=Noisy")
        one, three = (self.train(f"run{count}", *noisy, f"dataset.processes={count}") for count in (1, 3))
        self.assert_same_end(three, one)
        self.assert_same_end(self.kill_and_resume("killed", (6,), *noisy, "dataset.processes=1"), one)
        self.assertNotEqual(losses_of(one), losses_of(self.train("plain", "data.yaml", *WORDS, "trainer.max_steps=2")))

    def test_what_fails_in_it_is_named_with_its_sample(self):
        for how, said in (("throw", r"data.py:\d+: KeyError: 'no such picture'"), ("die", "its process ended with exit code 3"),
                          ("close", "its process closed its connection to the run"),
                          ("hang", "no answer within 8 s"), ("shape", r"input is \[2\] float32, and that of the first sample \[5\] float32")):
            with self.subTest(how=how):
                words = ("data.yaml", *WORDS, "dataset.class=Broken", "dataset.timeout_seconds=8", f"run.dir=run_{how}")
                error = self.ddprun(*words, code=1, env={"BROKEN": how}).err()
                self.assertRegex(error, rf"data.py: Broken \(sample 17 of train\): {said}")
                self.assert_nothing_left()

    def wait_for_wanted(self, running):
        self.wait_until((self.folder / "wanted").exists, "the sample that does not come", running)

    def test_its_processes_end_with_what_started_them(self):
        for words, end in ((("data.yaml", *WORDS, "dataset.class=Slow", "run.dir=run"), signal.SIGKILL),
                           (("check", "data.yaml", "dataset.class=SlowToMake"), signal.SIGTERM),
                           (("data.yaml", *WORDS, "dataset.class=SlowToMake", "run.dir=none"), signal.SIGTERM),
                           (("data", "data.yaml", "dataset.class=SlowToMake"), signal.SIGINT)):
            with self.subTest(words=words[0]):
                running = self.start(*words)
                self.wait_for_wanted(running)
                running.send(end)
                code = running.wait(20)
                if "run.dir=none" in words:
                    self.assertEqual(code, 75, running.text())
                    self.assertIn("had not started to train before the end; run it again", running.err())
                self.assert_nothing_left()
                (self.folder / "wanted").unlink()

    def test_a_run_that_waits_for_a_sample_is_saved_when_it_is_asked_to_end(self):
        words = ("data.yaml", "trainer.max_epochs=1", "trainer.global_batch=4", "launch.workers=1", "trainer.prefetch_batches=1")
        running = self.start(*words, "dataset.class=Slow", "dataset.processes=1", "run.dir=run")
        self.wait_for_wanted(running)
        running.send(signal.SIGTERM)
        self.assertEqual(running.wait(25), 75, running.text())
        self.assert_nothing_left()
        resumed = self.ddprun("resume", "run", "dataset.class=Data")
        self.assert_same_end(self.folder / "run", self.train("whole", *words))
        self.assertNotIn("the data are not those", resumed.text())
        self.write_arrays("train", TRAIN, shift=1)
        changed = self.ddprun("resume", "run", "trainer.max_epochs=2")
        self.assertIn("the data are not those that the run has seen up to step 23: as many samples as before, with other", changed.text())
        self.assertIn('"kind":"data"', (self.folder / "run/events.jsonl").read_text().replace(" ", ""))

    def test_its_processes_begin_together(self):
        self.ddprun("check", "data.yaml", "dataset.class=MadeTogether", "dataset.splits=[train]", "dataset.processes=3",
                    "dataset.timeout_seconds=60")  # fmt: skip

    def test_mistakes_are_found_before_the_first_step(self):
        for words, said in ((("dataset.class=Dat",), "data.py: Dat: it has no class Dat"), (("dataset.file=no.py",), "no.py: no such file"), (("dataset.file=data.yaml",), "expected a Python file, whose name ends in .py"),
                            (("dataset.arguments.scale=3",), r"data.py: Data: data.py:\d+: AssertionError"),
                            (("dataset.class=Unnamed",), "needs the attribute `classes`"),
                            (("dataset.class=Spelled",), "classes is 'ab', expected how many there are, or a list of their names"),
                            (("dataset.class=Twins",), "two of its classes have the same name, a; give each its own"),
                            (("dataset.splits=[train,val,train]",), "dataset.splits: train comes more than once"),
                            (("dataset.python=pythn",), "pythn: cannot be started: No such file")):
            with self.subTest(said=said):
                self.assertRegex(self.ddprun("check", "data.yaml", *words, code=2).err(), said)


if __name__ == "__main__":
    unittest.main()

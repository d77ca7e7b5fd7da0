# SPDX-License-Identifier: MIT
"""Plugins that do not keep their promises: `check` and the run's beginning name the plugin that is wrong, and its line."""

import os
import pathlib
import shutil
import unittest

from command import CommandTest, summary

PLUGINS = pathlib.Path(os.environ["DDPRUN"]).resolve().parent.parent / "tests/flawed_plugins"
EXPERIMENT = f"""\
name: flawed
plugin_path: {PLUGINS}
model: flawed_model
dataset:
  plugin: flawed_dataset
optimizer: {{plugin: sgd, lr: 0.1}}
trainer: {{max_epochs: 1, global_batch: 16, memory_format: channels_first}}
launch: {{workers: 1, device: cpu}}
loggers: [jsonl]
"""
RUN = ("e.yaml", "run.dir=run")
DATASET, MODEL = "e.yaml:5:11: dataset: plugin flawed_dataset: split ", "e.yaml:3:8: model: plugin flawed_model: "
WEIGHTS, MSE = "objective={class_weights: [1, 1]}", "objective=mse"

# (words, what `check` and the run say, in one line)
FLAWS = [
    (["dataset.flaw=count"], [DATASET, " samples, and gives input of "]),
    (["dataset.flaw=no index"], [DATASET, "get() leaves Batch::index undefined"]),
    (["dataset.flaw=type"], [DATASET, "inputs of type Double, expected Float"]),
    (["dataset.flaw=label"], [DATASET, " has the class 4, but spec() promises 4 classes, 0 to 3"]),
    (["dataset.flaw=augment"], [DATASET, "augment() makes input of "]),
    (["model.flaw=outputs"], [MODEL, ", 7]: expected [", ", 4], a number for each of the dataset's classes"]),
    (["model.flaw=detached"], [MODEL, "the loss depends on no parameter"]),
    (["model.flaw=counts", "trainer.recompute=all"], ["trainer.recompute: hidden ", "when it was computed again"]),
    ([WEIGHTS], [f"command line: {WEIGHTS}: objective.class_weights: 2 weights, but the model predicts 4 classes"]),
    ([MSE], [f"command line: {MSE}: objective: mse expects a prediction of the target's shape; the model returned"]),
]
# (words, what `check` says)
CHECKED = [
    (["e.yaml", "model.flaw=unused", "launch.workers=2"], [MODEL + "the loss does not depend on these parameters"]),
    (["--gradients", "e.yaml", "model.flaw=unregistered"], [MODEL, "register_module()"]),
    (["e.yaml", "model=convnet"], ["model: plugin convnet: convnet takes images"]),
    (["e.yaml", "dataset=tensors", "dataset.train=[x.npy, y.npy]", "model=mlp"],
     [": dataset: plugin tensors: ", "x.npy: cannot be opened", "--no-data"]),
    (["e.yaml", "dataset=mnist", "dataset.root=data", "model=convnet", "dataset.download=false"], ["mnist: the files are not there"]),
    (["experiments/text.yaml", "early_stopping.monitor=val/perplexty"],
     ["early_stopping.monitor: no metric is called val/perplexty; did you mean val/perplexity?"]),
]  # fmt: skip
# (words, how the last line of a `check` begins that finds nothing)
PASSED = [
    ([], "Checked: some samples of train, val and test, and one step with 4 of them"),
    (["dataset.prepares=true"], "Not checked: the data and the model's use of them; the data have to be downloaded or prepared"),
    (["dataset.flaw=type", "--no-data"], "Not checked: the data"),
    (["dataset=tensors", "dataset.train=[x.npy, y.npy]", "model=mlp", "--no-data"], "Not checked: the data"),
    (["dataset=mnist", "dataset.root=data", "model=convnet"],
     "Not checked: the data and the model's use of them; the data have to be downloaded"),
]  # fmt: skip


class Promises(CommandTest):
    def setUp(self):
        super().setUp()
        (self.folder / "e.yaml").write_text(EXPERIMENT)

    def assert_has(self, message, texts):
        for text in texts:
            self.assertIn(text, message)

    def start_and_fail(self, *words):
        running = self.start("e.yaml", *words)
        self.assertIn(running.wait(), (1, 2), running.text())
        self.assertNotIn("frame #", running.err())
        self.assertEqual(running.err().count("error: "), 1, "said once")
        shutil.rmtree(self.folder / "outputs", ignore_errors=True)
        return running.err()

    def test_what_is_not_as_promised_is_found_by_check_and_by_the_run(self):
        for words, texts in FLAWS:
            with self.subTest(words):
                for message in (self.assert_refused("check", "e.yaml", *words), self.start_and_fail(*words)):
                    self.assert_has(message, texts)
                    self.assertEqual("plugin flawed_model" in message, MODEL in texts)

    def test_what_check_finds(self):
        for words, texts in CHECKED:
            with self.subTest(words):
                self.assert_has(self.assert_refused("check", *words), texts)

    def test_check_passes_and_says_what_it_has_not_looked_at(self):
        for words, line in PASSED:
            with self.subTest(words):
                said = self.ddprun("check", "e.yaml", *words).out()
                self.assertIn("no mistakes found", said)
                self.assertTrue(said.splitlines()[-1].startswith(line), said)
        self.assertFalse((self.folder / "data").exists())
        self.assertIn("backward agrees", self.ddprun("check", "--gradients", "e.yaml", "dataset.prepares=true").out())

    def test_check_estimates_the_memory_of_a_worker(self):
        said = self.ddprun("check", "e.yaml", "trainer.global_batch=32", "trainer.micro_batch=8").out()
        size = "[0-9.]+ (bytes|kB|MB)"
        self.assertRegex(said, rf"\nMemory of a worker, estimated: {size}: weights {size}, gradients {size}, optimizer {size}, "
                         rf"activations {size} \(8 samples at once, {size} each\), and {size} more of worker 0 while it saves\.\n")  # fmt: skip

    def test_an_error_names_the_hook_and_the_plugin_once(self):
        self.assertIn(MODEL + "forward() threw: mat1 and mat2", self.start_and_fail("model.flaw=shapes"))
        message = self.start_and_fail("model=flawed_model", "model.flaw=shapes")
        self.assertIn(" command line: model=flawed_model: forward() threw: mat1 and mat2", message)

    def test_unused_parameters_are_named_with_one_worker_too(self):
        for running in (self.ddprun(*RUN, "model.flaw=unused"), self.ddprun("check", "e.yaml", "model.flaw=unused")):
            self.assertEqual(running.err().count("the loss does not depend on these parameters"), 1, running.err())
            self.assertIn("spare.weight, spare.bias", running.err())
        meant = "trainer.find_unused_parameters=true"
        self.assertEqual(self.ddprun("check", "e.yaml", "model.flaw=unused", meant).err(), "")

    def test_the_best_of_a_regression_has_the_least_loss_where_nobody_says_otherwise(self):
        running = self.ddprun(*RUN, "dataset=friedman", "dataset.train_size=64", "model=mlp", "model.outputs=1", "objective=mse",
                              "trainer.max_epochs=2")  # fmt: skip
        self.assertNotIn("warning", running.err())
        self.assertTrue((self.folder / "run/checkpoints/best").exists())
        self.assertIn("val/loss", summary(self.folder / "run")["best"])


if __name__ == "__main__":
    unittest.main()

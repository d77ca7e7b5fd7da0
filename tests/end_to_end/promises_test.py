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


class PromiseTest(CommandTest):
    def setUp(self):
        super().setUp()
        (self.folder / "e.yaml").write_text(EXPERIMENT)

    def check(self, *words):
        """That it finds nothing. Its last line."""
        running = self.ddprun("check", "e.yaml", *words)
        self.assertIn("no mistakes found", running.out())
        return running.out().splitlines()[-1]

    def assert_found(self, texts, *words):
        """By check and by the run, in one line, with the same words."""
        for message in (self.assert_refused("check", "e.yaml", *words), self.start_and_fail(*words)):
            for text in texts:
                self.assertIn(text, message)

    def start_and_fail(self, *words):
        running = self.start("e.yaml", *words)
        self.assertIn(running.wait(), (1, 2), running.text())
        self.assertNotIn("frame #", running.err())
        self.assertEqual(running.err().count("error: "), 1, "told once")
        shutil.rmtree(self.folder / "outputs", ignore_errors=True)
        return running.err()


class Dataset(PromiseTest):
    PLACE = "e.yaml:5:11: dataset: plugin flawed_dataset: split "

    def test_samples_that_are_not_as_promised_are_the_datasets_fault(self):
        for flaw, found in {
                "count": " samples, and gives input of ",
                "no index": "get() leaves Batch::index undefined",
                "type": "inputs of type Double, expected Float",
                "label": " has the class 4, but spec() promises 4 classes, 0 to 3",
                "augment": "augment() makes input of "}.items():
            with self.subTest(flaw=flaw):
                self.assert_found([self.PLACE, found], f"dataset.flaw={flaw}")

    def test_the_dataset_is_started_where_nothing_has_to_be_prepared(self):
        self.assertRegex(self.check(), r"^Checked: some samples of train, val and test, and one step with 4 of them")
        self.assertRegex(self.check("dataset.prepares=true"), r"^Not checked: the data and the model's use of them; the data have to be downloaded or prepared")
        self.assertRegex(self.check("dataset.flaw=type", "--no-data"), r"^Not checked: the data")
        self.assertIn("backward agrees", self.ddprun("check", "--gradients", "e.yaml", "dataset.prepares=true").out())

    def test_the_memory_of_a_worker_is_told(self):
        said = self.ddprun("check", "e.yaml", "trainer.global_batch=32", "trainer.micro_batch=8").out()
        size = "[0-9.]+ (bytes|kB|MB)"
        self.assertRegex(said, rf"\nMemory of a worker, estimated: {size}: weights {size}, gradients {size}, optimizer {size}, "
                         rf"activations {size} \(8 samples at once, {size} each\), and {size} more of worker 0 while it saves\.\n")  # fmt: skip

    def test_files_that_are_not_there_are_found_by_check(self):
        words = ("dataset=tensors", "dataset.train=[x.npy, y.npy]", "model=mlp")
        message = self.assert_refused("check", "e.yaml", *words)
        self.assertIn(": dataset: plugin tensors: ", message)
        self.assertIn("x.npy: cannot be opened", message)
        self.assertIn("--no-data", message)
        self.check(*words, "--no-data")

    def test_nothing_is_downloaded_by_check(self):
        words = ("dataset=mnist", "dataset.root=data", "model=convnet")
        self.assertRegex(self.check(*words), r"^Not checked: the data and the model's use of them; the data have to be downloaded")
        self.assertFalse((self.folder / "data").exists())
        self.assertIn("mnist: the files are not there", self.assert_refused("check", "e.yaml", *words, "dataset.download=false"))


class Model(PromiseTest):
    PLACE = "e.yaml:3:8: model: plugin flawed_model: "

    def test_a_number_for_each_class_is_what_a_classifier_gives(self):
        self.assert_found([self.PLACE, ", 7]: expected [", ", 4], a number for each of the dataset's classes"], "model.flaw=outputs")

    def test_an_error_names_the_hook_that_the_model_has(self):
        self.assertIn(self.PLACE + "forward() threw: mat1 and mat2", self.start_and_fail("model.flaw=shapes"))

    def test_a_plugin_that_a_word_of_the_command_line_names_is_named_once(self):
        message = self.start_and_fail("model=flawed_model", "model.flaw=shapes")
        self.assertIn(" command line: model=flawed_model: forward() threw: mat1 and mat2", message)

    def test_a_loss_that_depends_on_nothing(self):
        self.assert_found([self.PLACE, "the loss depends on no parameter"], "model.flaw=detached")

    def test_unused_parameters_are_told_with_one_worker_too(self):
        words = "the loss does not depend on these parameters"
        for running in (self.ddprun(*RUN, "model.flaw=unused"), self.ddprun("check", "e.yaml", "model.flaw=unused")):
            self.assertEqual(running.err().count(words), 1, running.err())
            self.assertIn("spare.weight, spare.bias", running.err())
        meant = "trainer.find_unused_parameters=true"
        self.assertEqual(self.ddprun("check", "e.yaml", "model.flaw=unused", meant).err(), "")
        message = self.assert_refused("check", "e.yaml", "model.flaw=unused", "launch.workers=2")
        self.assertIn(self.PLACE + words, message)

    def test_a_block_that_computes_something_else_the_second_time(self):
        self.assert_found(["trainer.recompute: hidden ", "when it was computed again"], "model.flaw=counts", "trainer.recompute=all")

    def test_the_gradient_check_hints_at_what_is_not_registered(self):
        running = self.ddprun("check", "--gradients", "e.yaml", "model.flaw=unregistered", code=2)
        self.assertEqual(running.out(), "", "nor that there are no mistakes")
        message = running.err()
        self.assertIn(self.PLACE, message)
        self.assertIn("register_module()", message)

    def test_shapes_that_a_model_cannot_take_are_found_by_check(self):
        message = self.assert_refused("check", "e.yaml", "model=convnet")
        self.assertIn("model: plugin convnet: convnet takes images", message)


class Objective(PromiseTest):
    def test_errors_of_the_objective_name_its_line(self):
        for words, place in {"objective={class_weights: [1, 1]}": "objective.class_weights: 2 weights, but the model predicts 4 classes",
                             "objective=mse": "objective: mse expects a prediction of the target's shape; the model returned"}.items():
            with self.subTest(words=words):
                for message in (self.assert_refused("check", "e.yaml", words), self.start_and_fail(words)):
                    self.assertIn(f"command line: {words}: {place}", message)
                    self.assertNotIn("plugin flawed_model", message)

    def test_the_best_of_a_regression_has_the_least_loss_where_nobody_says_otherwise(self):
        running = self.ddprun(*RUN, "dataset=friedman", "dataset.train_size=64", "model=mlp", "model.outputs=1", "objective=mse",
                              "trainer.max_epochs=2")
        self.assertNotIn("warning", running.err())
        self.assertTrue((self.folder / "run/checkpoints/best").exists())
        self.assertIn("val/loss", summary(self.folder / "run")["best"])

    def test_a_metric_that_the_model_does_not_measure_is_found_by_check(self):
        message = self.assert_refused("check", "experiments/text.yaml", "early_stopping.monitor=val/perplexty")
        self.assertIn("early_stopping.monitor: no metric is called val/perplexty; did you mean val/perplexity?", message)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Mistakes of the user: each is reported in one line that says where and what to do, and nothing has happened."""

import os
import re
import struct
import unittest

from command import DDPRUN, SMALL, CommandTest, free_port
from init_test import npy

MIB = 1 << 20
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))

# (what a file holds, what is said of it); the reader's own tests have all of its mistakes.
FILES = [
    ("", "e.yaml: the file is empty"),
    ("- model: mlp\n", "e.yaml:1:1: expected a map of keys, found a list"),
    ("name: a\ndefaults: [experiments/digits]\nname: b\n", "e.yaml:3:1: name: written twice; first at e.yaml:1:1"),
    ("model: &m {again: *m}\n", "e.yaml:1:19: a cycle"),
    (ALIASES, "e.yaml"),
    ("#" * (2 * MIB), "e.yaml: larger than 1 MB"),
    ("name: [a\n", "e.yaml:2:1: not valid YAML"),
    (bytes(range(256)), "e.yaml"),
]
# (words, what is said of them)
WORDS = [
    (["--bogus"], "--help"), (["check"], "--help"), (["resume"], "--help"), (["experiments/digits.yaml", "--bogus"], "--help"),
    (["plugins", "show"], "--help"),
    (["experimets/digits.yaml"], "did you mean experiments/digits.yaml?"), (["trian", "experiments/digits.yaml"], "did you mean ddprun run?"),
    (["experiments/digits.yaml", "run.name=a"], "did you mean name or "), (["experiments/digits.yaml", "optim.lr=1"], "did you mean optimizer?"),
    (["experiments/mnsit.yaml"], "experiments/mnsit.yaml: no such experiment; did you mean experiments/mnist.yaml?"),
    (["home"], "a folder, expected an experiment, a YAML file; `ddprun init home` writes one"),
    (["resum", "outputs/mnist/latest"], "did you mean ddprun resume?"), (["train", "experiments/digits"], "did you mean ddprun run?"),
    (["--build", "f.cpp", "check", "experiments/digits"], "ddprun check ..."),
    (["resume", "nowhere"], "nowhere"), (["resume", "home"], "is not a run folder"),
    (["plugins", "show", "convne"], "there is no plugin convne; did you mean convnet?"),
    (["plugins", "check", "convne"], "did you mean convnet?"), (["plugins", "check", "./my_nut.so"], "./my_nut.so: there is no such file"),
    (["experiments/digits.yaml", "model.plugin=sgd"], "sgd is an optimizer plugin, but a model is needed here; known: "),
    ([*SMALL, "trainer.global_batch=2", "launch.workers=3"], "trainer.global_batch: 2 samples cannot be shared by 3 workers"),
    ([*SMALL, "launch.device=cuda", "launch.workers=2"], "launch.device: cuda, but no GPU is found here; use launch.device=cpu"),
    ([*SMALL, "run.dir=file/run"], "file: cannot make the folder: Not a directory; choose another folder (run.dir="),
    ([*SMALL, "run.dir=mine"], "run.dir=mine already exists"),
]  # fmt: skip
# (section, key, value, what is said of it): what a run finds on this machine, after its file was read.
OF_THE_MACHINE = [
    ("launch", "device", "cuda", "cuda, but no GPU is found here"), ("launch", "backend", "nccl", "nccl connects GPUs"),
    ("launch", "threads", "2", "2 for each worker, but OMP_THREAD_LIMIT=1"), ("trainer", "cuda_graph", "on", "on needs a GPU"),
    ("trainer", "precision", "fp16", "fp16 needs a GPU"), ("trainer", "precision", "tf32", "tf32 is a mode of GPUs"),
    ("trainer", "strategy", "dp", "dp spreads each batch over the GPUs"), ("launch", "token_file", "none", "cannot be read"),
    ("launch", "address", "192.0.2.7", "192.0.2.7 is not an address"),
]  # fmt: skip


ACURACY = "no metric is called val/acuracy; did you mean val/accuracy? known: train/loss, train/accuracy, val/loss, "
# (what the file has besides its defaults, words, the parts of each line that is said): all at once.
KEYS = [
    ("trainer:\n"
     "  max_epoch: 3\n"        # unknown
     "  global_batch: many\n"  # of another type
     "  log_every: 0\n"        # out of range
     "model: {plugin: mlp, hiden: 5}\n"
     "optimizer: {plugin: sgdd}\n", [], [
         ("e.yaml:3:3: ", "trainer.max_epoch: unknown key; did you mean max_epochs?"),
         ("e.yaml:4:17: ", "trainer.global_batch: expected int"),
         ("e.yaml:5:14: ", "trainer.log_every: expected int 1 .. "),
         ("e.yaml:6:22: ", "model.hiden: unknown key; did you mean hidden?"),
         ("e.yaml:7:", "no optimizer plugin sgdd; did you mean sgd?")]),
    ("", ["trainer.max_epoch=3", "optimizer.lr=fast", "trainer.log_every=0", "colour=red", "dataset.train_sise=5", "model=mlpp"], [
        ("command line: trainer.max_epoch=3: ", "trainer.max_epoch: unknown key; did you mean max_epochs?"),
        ("command line: optimizer.lr=fast: ", "optimizer.lr: expected float"),
        ("command line: trainer.log_every=0: ", "trainer.log_every: expected int 1 .. "),
        ("command line: colour=red: ", "colour: unknown key"),
        ("command line: dataset.train_sise=5: ", "dataset.train_sise: unknown key; did you mean train_size?"),
        ("command line: model=mlpp: ", "model: there is no model plugin mlpp; did you mean mlp?")]),
    ("early_stopping: {monitor: val/acuracy}\n"
     "checkpoint: {monitor: val/acuracy}\n", ["schedule.name=plateau", "schedule.monitor=val/los"], [
         ("e.yaml:2:27: ", "early_stopping.monitor: " + ACURACY), ("e.yaml:3:23: ", "checkpoint.monitor: " + ACURACY),
         ("command line: schedule.monitor=val/los: ", "schedule.monitor: no metric is called val/los; did you mean val/loss? known: ")]),
]  # fmt: skip


class Keys(CommandTest):
    def experiment(self, text):
        (self.folder / "e.yaml").write_text("defaults: [experiments/digits]\n" + text)
        return "e.yaml"

    def test_all_mistakes_are_found_at_once_with_their_places_by_check_too(self):
        for text, words, expected in KEYS:
            with self.subTest(text, words=words):
                message = self.assert_refused(self.experiment(text), *words)
                self.assertEqual(len(message.splitlines()), len(expected), message)
                for parts in expected:
                    self.assertTrue(any(all(part in line for part in parts) for line in message.splitlines()), f"{parts}\n{message}")
                self.assertEqual(self.assert_refused("check", "e.yaml", *words), message)

    def test_a_metric_that_the_model_does_not_measure_is_found_before_the_first_step(self):
        running = self.ddprun("experiments/text.yaml", "early_stopping.monitor=val/perplexty", "run.dir=run", code=2)
        self.assertIn("rank 0 failed: command line: early_stopping.monitor=val/perplexty: early_stopping.monitor: no metric is called "
                      "val/perplexty; did you mean val/perplexity? known: val/loss, ", running.err())
        self.assertFalse(list((self.folder / "run/checkpoints").iterdir()))

    def test_what_a_worker_finds_wrong_with_a_key_has_the_place_in_the_users_file(self):
        file = self.experiment("dataset: {train_size: 64}\npretrained: {freeze: layer9.*}\n")
        for number, (words, reported) in enumerate((((), "e.yaml:3:22: pretrained.freeze: no parameter matches \"layer9.*\""),
                            (("pretrained={file: none.safetensors}",),
                             "command line: pretrained={file: none.safetensors}: pretrained.file: "))):
            error = self.ddprun(file, *words, "launch.device=cpu", f"run.dir=run{number}", code=2).err()
            self.assertIn(reported, error)
            self.assertNotIn("/ddprun-", error.replace("/ddprun-e2e-", ""), "a temporary file that is gone")

    def test_a_mistyped_run_is_answered_with_the_nearest(self):
        self.ddprun(*SMALL, "model=mlp", "trainer.max_steps=1", "run.dir=outputs/ft/latest")
        for words, near in ((["report", "outputs/ft/lates"], "did you mean outputs/ft/latest?"),
                            (["resume", "output/ft/latest"], "did you mean outputs/ft/latest?"),
                            (["evaluate", "outputs/ft"], "did you mean outputs/ft/latest?")):
            self.assertIn(near, self.ddprun(*words, code=2).err())


class DataOfOneKind(CommandTest):
    """What an experiment asks for and its data make impossible or idle."""

    def words(self, targets):
        count = len(targets)
        (self.folder / "x.npy").write_bytes(npy("<f4", (count, 4), struct.pack(f"<{4 * count}f", *range(4 * count))))
        (self.folder / "y.npy").write_bytes(npy("<i8", (count,), struct.pack(f"<{count}q", *targets)))
        (self.folder / "e.yaml").write_text("model: {plugin: mlp}\noptimizer: {plugin: sgd}\n"
                                            "dataset: {plugin: tensors, train: [x.npy, y.npy], val: [], std: 30}\n"
                                            "trainer: {max_steps: 2, global_batch: 4}\nlaunch: {device: cpu}\n")
        return "e.yaml"

    def test_what_has_no_effect_is_reported_by_check_and_at_the_start(self):
        file = self.words([0, 1, 2, 0, 1, 2])
        words = ["objective={metrics: [accuracy, top5]}", "early_stopping={monitor: val/loss}", "schedule=plateau",
                 "checkpoint.monitor=val/accuracy", "schedule.warmup_from=0.1", "histograms={every: 50st}"]
        for command in (["check", file], [file, "run.dir=run"]):
            reported = self.ddprun(*command, *words).err()
            for text in ("early_stopping.monitor: val/loss is not measured, since the dataset has neither a validation nor a test split: "
                         "nothing can stop the run early", "the lr never falls", "no checkpoint becomes the best",
                         "objective.metrics: top5 of 3 classes is always 100 %", "schedule.warmup_from: has no effect: there is no warmup",
                         "histograms.every: has no effect: the first are drawn after step 50, and the run has 2 steps of 2 an epoch"):
                self.assertIn(text, reported)
        self.assertNotIn("has no effect", self.ddprun("check", file).err())

    def test_a_loss_that_is_always_0_is_refused(self):
        file = self.words([0, 0, 0, 0])
        self.assertIn("all samples are of one class", self.assert_refused("check", file))
        self.assertIn("all samples are of one class", self.ddprun(file, "run.dir=run", code=2).err())
        file = self.words([0, 1, 0, 1])
        self.assertIn("objective.class_weights: are all 0", self.assert_refused(file, "objective={class_weights: [0, 0]}"))
        reported = "objective.class_weights: are 0 for every class that the training samples have"
        words = ("dataset.classes=3", "objective={class_weights: [0, 0, 1]}")
        self.assertIn(reported, self.assert_refused("check", file, *words))
        self.assertIn(reported, self.ddprun(file, *words, "run.dir=other", code=2).err())


class Refusals(CommandTest):
    def test_files_that_are_no_experiment(self):
        for content, text in FILES:
            with self.subTest(content[:30]):
                (self.folder / "e.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
                message = self.assert_refused("e.yaml")
                self.assertIn(text, message)
                self.assertEqual(len(message.splitlines()), 1, message)

    def test_words_that_make_no_sense_and_what_is_there_already(self):
        (self.folder / "file").write_text("")
        (self.folder / "mine").mkdir()
        (self.folder / "mine/notes.txt").write_text("years of work")
        for words, text in WORDS:
            with self.subTest(words):
                message = self.assert_refused(*words, env=NO_GPU)
                self.assertTrue(message.startswith("ddprun: error: "), message)
                self.assertIn(text, message)
        self.assertEqual([path.name for path in (self.folder / "mine").iterdir()], ["notes.txt"])
        self.assertEqual(list((self.folder / "home").iterdir()), [])

    def test_what_only_this_machine_refuses_is_shown_at_its_key(self):
        for section, key, value, words in OF_THE_MACHINE:
            with self.subTest(key=key, value=value):
                device = "" if key == "device" else ", device: auto" if key == "strategy" else ", device: cpu"
                of_launch = f"{{{key}: {value}{device}}}" if section == "launch" else f"{{workers: 2{device}}}"
                of_trainer = f"{{{key}: {value}}}" if section == "trainer" else "{shards: 8}" if key == "threads" else "{}"
                (self.folder / "e.yaml").write_text(f"defaults: [experiments/digits]\ntrainer: {of_trainer}\nlaunch: {of_launch}\n")
                words_of_nodes = ("--nnodes=2", "--rdzv-endpoint=127.0.0.1:1") if key in ("token_file", "address") else ()
                message = self.assert_refused("e.yaml", *words_of_nodes, env=NO_GPU | {"OMP_THREAD_LIMIT": "1"})
                place = f"e.yaml:{2 if section == 'trainer' else 3}:{len(section) + len(key) + 6}: "
                self.assertRegex(message, re.escape(place) + f"{section}.{key}: .*{re.escape(words)}")

class Names(CommandTest):
    def test_a_folder_whose_name_is_not_utf8_is_refused_before_anything_is_trained(self):
        odd = os.fsdecode(b"cw\xff")
        (self.folder / odd).mkdir()
        refused = self.ddprun(*SMALL, "model=mlp", folder=self.folder / odd, code=2)
        self.assertRegex(refused.err(), "the run's folder would be .*cw.*/outputs/digits, whose name is not UTF-8 text")
        self.assertFalse((self.folder / odd / "outputs").exists())
        for words in ((*SMALL, f"run.dir={odd}/run"), ("experiments/mnist.yaml", f"dataset.root={odd}")):
            self.assertIn("is not UTF-8 text", self.ddprun(*words, code=2).err())


class Machine(CommandTest):
    def test_check_passes_what_needs_a_gpu_where_there_is_none_and_says_so(self):
        for word in ("trainer.precision=fp16", "trainer.strategy=dp", "launch.backend=nccl", "trainer.cuda_graph=on", "launch.device=cuda"):
            with self.subTest(word=word):
                words = [*SMALL, "launch.device=auto", word]
                lines = self.ddprun("check", "--no-data", *words, env=NO_GPU).out().splitlines()
                self.assertIn("no mistakes found", lines[0])
                self.assertTrue(lines[-1].startswith(f"Not checked: what needs a GPU ({word})"), lines)
                self.assert_refused(*words, env=NO_GPU)
        self.assert_refused("check", "--no-data", *SMALL, "trainer.precision=fp16")  # launch.device=cpu: that is the mistake

    def test_mnist_without_data_and_network_says_what_to_put_where(self):
        mirror = f"http://127.0.0.1:{free_port()}/"
        message = self.assert_refused("experiments/mnist.yaml", f"dataset.mirrors=[{mirror}]",
                                      env={"DDPRUN_DATA": f"{self.folder}/data"})
        self.assertIn(f"Put these files into {self.folder}/", message)
        self.assertIn(f"{self.folder}/data/mnist", message)
        for file, digest in {"train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                             "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                             "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                             "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}.items():
            self.assertIn(f"sha256 {digest}", message)
            self.assertIn(mirror + file, message)


class Answers(CommandTest):
    def test_help_is_of_the_command_alone_and_fits_the_terminal(self):
        commands = re.findall(r"(?m)^  (\w+) {2,}[a-z]", self.ddprun("--help").out().split("Commands:")[1].split("Examples:")[0])
        self.assertGreater(len(commands), 10)
        for command in commands:
            text = self.ddprun(command, "--help").out()
            self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
            self.assertLessEqual(set(re.findall(r"(?m)^  ddprun (\w+)", text)), {command})

    def test_a_folder_that_was_deleted_under_the_command(self):
        running = self.start_program("sh", "-c", f"mkdir gone && cd gone && rmdir ../gone && exec {DDPRUN} check experiments/digits.yaml")
        self.assertEqual(running.wait(), 2)
        self.assertEqual(running.err(), "ddprun: error: the current folder was deleted; go to another one (cd)\n")

    def test_an_answer_that_a_full_disk_cuts_off_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            running = self.start("keys", stdout=full)
        self.assertEqual(running.wait(), 1)
        self.assertIn("cannot write the whole answer to standard output", running.err())

    def test_a_run_whose_output_meets_a_full_disk_says_so_once_and_continues(self):
        with open("/dev/full", "wb") as full:
            running = self.start("run", *SMALL, "model=mlp", "trainer.max_epochs=2", "run.dir=run", stdout=full)
        self.assertEqual(running.wait(), 0, running.err())
        self.assertEqual(running.err().count("cannot write to standard output: No space left on device"), 1, running.err())

    def test_checking_what_is_no_plugin(self):
        (self.folder / "my_net.so").write_text("no library")
        checked = self.ddprun("plugins", "check", "my_net.so", "digits", code=1)
        self.assertRegex(checked.out(), r"(?m)^my_net.so\n  wrong  ")
        self.assertRegex(checked.out(), r"(?m)^  ok     it is constructed: \d+ options$")
        self.assertIn("2 plugins checked, 1 failed\n", checked.out())


if __name__ == "__main__":
    unittest.main()

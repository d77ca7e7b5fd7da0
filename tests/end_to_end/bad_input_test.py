# SPDX-License-Identifier: MIT
"""Mistakes of the user: each is told in one line that says where and what to do, and nothing has happened."""

import os
import re
import struct
import unittest

from command import DDPRUN, SMALL, CommandTest, all_rows, free_port

MIB = 1 << 20


class Keys(CommandTest):
    def experiment(self, text):
        (self.folder / "e.yaml").write_text(text)
        return "e.yaml"

    def test_all_mistakes_of_a_file_are_told_at_once_with_their_places(self):
        file = self.experiment("defaults: [experiments/digits]\n"
                               "trainer:\n"
                               "  max_epoch: 3\n"        # unknown
                               "  global_batch: many\n"  # of another type
                               "  log_every: 0\n"        # out of range
                               "model: {plugin: mlp, hiden: 5}\n"
                               "optimizer: {plugin: sgdd}\n")
        lines = self.assert_refused(file).splitlines()
        self.assertEqual(len(lines), 5, lines)
        for place, words in {
                "e.yaml:3:3: ": "trainer.max_epoch: unknown key; did you mean max_epochs?",
                "e.yaml:4:17: ": "trainer.global_batch: expected int",
                "e.yaml:5:14: ": "trainer.log_every: expected int 1 .. ",
                "e.yaml:6:22: ": "model.hiden: unknown key; did you mean hidden?",
                "e.yaml:7:": "no optimizer plugin sgdd; did you mean sgd?"}.items():
            self.assertTrue(any(place in line and words in line for line in lines), f"{place}{words}\n{lines}")

    def test_all_mistakes_of_the_command_line_are_told_at_once(self):
        lines = self.assert_refused(
            "experiments/digits.yaml", "trainer.max_epoch=3", "optimizer.lr=fast", "trainer.log_every=0", "colour=red",
            "dataset.train_sise=5", "model=mlpp").splitlines()
        self.assertEqual(len(lines), 6, lines)
        for text in ("trainer.max_epoch=3: trainer.max_epoch: unknown key; did you mean max_epochs?",
                     "optimizer.lr=fast: optimizer.lr: expected float",
                     "trainer.log_every=0: trainer.log_every: expected int 1 .. ",
                     "colour=red: colour: unknown key",
                     "dataset.train_sise=5: dataset.train_sise: unknown key; did you mean train_size?",
                     "model=mlpp: model: there is no model plugin mlpp; did you mean mlp?"):
            self.assertTrue(any("command line: " + text in line for line in lines), f"{text}\n{lines}")

    def test_check_finds_the_same_mistakes(self):
        words = ("experiments/digits.yaml", "trainer.max_epoch=3", "optimizer.lr=fast")
        self.assertEqual(self.assert_refused("check", *words), self.assert_refused(*words))

    def test_a_plugin_of_another_kind_is_no_model(self):
        self.assertIn("sgd is an optimizer plugin, but a model is needed here; known: convnet, ",
                      self.assert_refused("experiments/digits.yaml", "model.plugin=sgd"))

    def test_a_monitored_metric_that_does_not_exist_is_found_before_the_first_step(self):
        words = "no metric is called val/acuracy; did you mean val/accuracy? known: train/loss, train/accuracy, val/loss, "
        lines = self.assert_refused(self.experiment(
            "defaults: [experiments/digits]\n"
            "early_stopping: {monitor: val/acuracy}\n"
            "checkpoint: {monitor: val/acuracy}\n"), "schedule.name=plateau", "schedule.monitor=val/los").splitlines()
        self.assertEqual(len(lines), 3, lines)
        for place in ("e.yaml:2:27: early_stopping.monitor: " + words, "e.yaml:3:23: checkpoint.monitor: " + words,
                      "command line: schedule.monitor=val/los: schedule.monitor: no metric is called val/los; did you mean val/loss? known: "):
            self.assertTrue(any(place in line for line in lines), f"{place}\n{lines}")

    def test_a_metric_that_the_model_does_not_measure_is_found_before_the_first_step(self):
        running = self.ddprun("experiments/text.yaml", "early_stopping.monitor=val/perplexty", "run.dir=run", code=2)
        self.assertIn("rank 0 failed: command line: early_stopping.monitor=val/perplexty: early_stopping.monitor: no metric is called "
                      "val/perplexty; did you mean val/perplexity? known: val/loss, ", running.err())
        self.assertFalse(list((self.folder / "run/checkpoints").iterdir()))


    def test_what_a_worker_finds_wrong_with_a_key_is_told_with_the_place_in_the_users_file(self):
        file = self.experiment("defaults: [experiments/digits]\n"
                               "dataset: {train_size: 64}\n"
                               "pretrained: {freeze: layer9.*}\n")
        for number, (words, told) in enumerate((((), "e.yaml:3:22: pretrained.freeze: no parameter matches \"layer9.*\""),
                            (("pretrained={file: none.safetensors}",),
                             "command line: pretrained={file: none.safetensors}: pretrained.file: "))):
            error = self.ddprun(file, *words, "launch.device=cpu", f"run.dir=run{number}", code=2).err()
            self.assertIn(told, error)
            self.assertNotIn("/ddprun-", error.replace("/ddprun-e2e-", ""), "a temporary file that is gone")

    def test_mistyped_words_are_answered_with_the_nearest(self):
        self.ddprun(*SMALL, "model=mlp", "trainer.max_steps=1", "run.dir=outputs/ft/latest")
        for words, near in ((["experimets/digits.yaml"], "did you mean experiments/digits.yaml?"),
                            (["trian", "experiments/digits.yaml"], "did you mean ddprun run?"),
                            (["experiments/digits.yaml", "run.name=a"], "did you mean name or "),
                            (["experiments/digits.yaml", "optim.lr=1"], "did you mean optimizer?"),
                            (["report", "outputs/ft/lates"], "did you mean outputs/ft/latest?"),
                            (["resume", "output/ft/latest"], "did you mean outputs/ft/latest?"),
                            (["evaluate", "outputs/ft"], "did you mean outputs/ft/latest?")):
            self.assertIn(near, self.ddprun(*words, code=2).err())


class DataOfOneKind(CommandTest):
    """What an experiment asks for and its data make impossible or idle."""

    def words(self, targets):
        for name, kind, shape, content in (("x", "<f4", f"({len(targets)}, 4)", struct.pack(f"<{4 * len(targets)}f", *range(4 * len(targets)))),
                                           ("y", "<i8", f"({len(targets)},)", struct.pack(f"<{len(targets)}q", *targets))):
            header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
            (self.folder / f"{name}.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content)
        (self.folder / "e.yaml").write_text("model: {plugin: mlp}\noptimizer: {plugin: sgd}\n"
                                            "dataset: {plugin: tensors, train: [x.npy, y.npy], val: [], std: 30}\n"
                                            "trainer: {max_steps: 2, global_batch: 4}\nlaunch: {device: cpu}\n")
        return "e.yaml"

    def test_what_has_no_effect_is_told_by_check_and_at_the_start(self):
        file = self.words([0, 1, 2, 0, 1, 2])
        words = ["objective={metrics: [accuracy, top5]}", "early_stopping={monitor: val/loss}", "schedule=plateau",
                 "checkpoint.monitor=val/accuracy", "schedule.warmup_from=0.1", "histograms={every: 50st}"]
        for command in (["check", file], [file, "run.dir=run"]):
            told = self.ddprun(*command, *words).err()
            for text in ("early_stopping.monitor: val/loss is not measured, since the dataset has neither a validation nor a test split: "
                         "nothing can stop the run early", "the lr never falls", "no checkpoint becomes the best",
                         "objective.metrics: top5 of 3 classes is always 100 %", "schedule.warmup_from: has no effect: there is no warmup",
                         "histograms.every: has no effect: the first are drawn after step 50, and the run has 2 steps of 2 an epoch"):
                self.assertIn(text, told)
        self.assertNotIn("has no effect", self.ddprun("check", file).err())

    def test_a_loss_that_is_always_0_is_refused(self):
        file = self.words([0, 0, 0, 0])
        self.assertIn("all samples are of one class", self.assert_refused("check", file))
        self.assertIn("all samples are of one class", self.ddprun(file, "run.dir=run", code=2).err())
        file = self.words([0, 1, 0, 1])
        self.assertIn("objective.class_weights: are all 0", self.assert_refused(file, "objective={class_weights: [0, 0]}"))
        told = "objective.class_weights: are 0 for every class that the training samples have"
        words = ("dataset.classes=3", "objective={class_weights: [0, 0, 1]}")
        self.assertIn(told, self.assert_refused("check", file, *words))
        self.assertIn(told, self.ddprun(file, *words, "run.dir=other", code=2).err())


class Files(CommandTest):
    def refuse(self, content):
        (self.folder / "e.yaml").write_text(content)
        message = self.assert_refused("e.yaml")
        self.assertEqual(len(message.splitlines()), 1, message)
        return message

    def test_a_missing_experiment_lists_those_there_are(self):
        message = self.assert_refused("experiments/mnsit.yaml")
        self.assertIn("experiments/mnsit.yaml: no such experiment; ", message)
        self.assertIn("mnist", message)

    def test_an_empty_file(self):
        self.assertIn("e.yaml: the file is empty", self.refuse(""))

    def test_a_list_is_no_experiment(self):
        self.assertIn("e.yaml:1:1: expected a map of keys, found a list", self.refuse("- model: mlp\n"))

    def test_a_key_written_twice_is_told_with_both_places(self):
        self.assertIn("e.yaml:3:1: name: written twice; first at e.yaml:1:1", self.refuse("name: a\ndefaults: [experiments/digits]\nname: b\n"))

    def test_a_cycle_of_aliases(self):
        self.assertIn("e.yaml:1:19: a cycle", self.refuse("model: &m {again: *m}\n"))

    def test_a_cycle_of_defaults(self):
        (self.folder / "experiments").mkdir()
        (self.folder / "experiments/a.yaml").write_text("defaults: [experiments/b]\n")
        (self.folder / "experiments/b.yaml").write_text("defaults: [experiments/a]\n")
        self.assertIn("cycle", self.assert_refused("experiments/a.yaml"))

    def test_an_alias_bomb(self):
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
        self.assertIn("e.yaml", self.refuse("\n".join(lines)))

    def test_two_megabytes(self):
        self.assertIn("e.yaml: larger than 1 MB", self.refuse("#" * (2 * MIB)))

    def test_text_that_is_no_yaml(self):
        self.assertIn("e.yaml:2:1: not valid YAML", self.refuse("name: [a\n"))

    def test_a_binary_file(self):
        (self.folder / "e.yaml").write_bytes(bytes(range(256)))
        self.assertIn("e.yaml", self.assert_refused("e.yaml"))

    def test_a_folder_is_no_experiment(self):
        self.assertIn(f"a folder, expected an experiment, a YAML file; `ddprun init {self.folder}` writes one", self.assert_refused(self.folder))


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
    def test_fewer_samples_than_workers(self):
        message = self.assert_refused(*SMALL, "trainer.global_batch=2", "launch.workers=3")
        self.assertIn("trainer.global_batch", message)
        self.assertIn("2 samples cannot be shared by 3 workers", message)

    def test_a_gpu_where_there_is_none(self):
        message = self.assert_refused(*SMALL, "launch.device=cuda", "launch.workers=2", env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertIn("launch.device: cuda, but no GPU is found here; use launch.device=cpu", message)

    def test_what_only_this_machine_refuses_is_shown_at_its_key(self):
        """A run finds these after the file was read."""
        for section, key, value, words in (
                ("launch", "device", "cuda", "cuda, but no GPU is found here"),
                ("launch", "backend", "nccl", "nccl connects GPUs"), ("launch", "threads", "2", "2 for each worker, but OMP_THREAD_LIMIT=1"),
                ("trainer", "cuda_graph", "on", "on needs a GPU"), ("trainer", "precision", "fp16", "fp16 needs a GPU"),
                ("trainer", "precision", "tf32", "tf32 is a mode of GPUs"), ("trainer", "strategy", "dp", "dp spreads each batch over the GPUs"),
                ("launch", "token_file", "none", "cannot be read"), ("launch", "address", "192.0.2.7", "192.0.2.7 is not an address")):
            with self.subTest(key=key, value=value):
                device = "" if key == "device" else ", device: auto" if key == "strategy" else ", device: cpu"
                of_launch = f"{{{key}: {value}{device}}}" if section == "launch" else f"{{workers: 2{device}}}"
                of_trainer = f"{{{key}: {value}}}" if section == "trainer" else "{shards: 8}" if key == "threads" else "{}"
                (self.folder / "e.yaml").write_text(f"defaults: [experiments/digits]\ntrainer: {of_trainer}\nlaunch: {of_launch}\n")
                words_of_nodes = ("--nnodes=2", "--rdzv-endpoint=127.0.0.1:1") if key in ("token_file", "address") else ()
                message = self.assert_refused("e.yaml", *words_of_nodes, env={"CUDA_VISIBLE_DEVICES": "", "OMP_THREAD_LIMIT": "1"})
                place = f"e.yaml:{2 if section == 'trainer' else 3}:{len(section) + len(key) + 6}: "
                self.assertRegex(message, re.escape(place) + f"{section}.{key}: .*{re.escape(words)}")

    def test_check_passes_what_needs_a_gpu_where_there_is_none_and_says_so(self):
        for word in ("trainer.precision=fp16", "trainer.strategy=dp", "launch.backend=nccl", "trainer.cuda_graph=on", "launch.device=cuda"):
            with self.subTest(word=word):
                words = [*SMALL, "launch.device=auto", word]
                lines = self.ddprun("check", "--no-data", *words, env={"CUDA_VISIBLE_DEVICES": ""}).out().splitlines()
                self.assertIn("no mistakes found", lines[0])
                self.assertTrue(lines[-1].startswith(f"Not checked: what needs a GPU ({word})"), lines)
                self.assert_refused(*words, env={"CUDA_VISIBLE_DEVICES": ""})
        self.assert_refused("check", "--no-data", *SMALL, "trainer.precision=fp16")  # launch.device=cpu: that is the mistake

    def test_a_folder_that_exists_is_not_touched(self):
        run = self.folder / "mine"
        run.mkdir()
        (run / "notes.txt").write_text("years of work")
        message = self.assert_refused(*SMALL, "run.dir=mine")
        self.assertIn("run.dir=mine already exists", message)
        self.assertIn("ddprun resume mine", message)
        self.assertEqual([path.name for path in run.iterdir()], ["notes.txt"])

    def test_a_folder_that_cannot_be_made(self):
        (self.folder / "file").write_text("")
        self.assertIn("file: cannot make the folder: Not a directory; choose another folder (run.dir=", self.assert_refused(*SMALL, "run.dir=file/run"))

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


class Words(CommandTest):
    def test_wrong_usage_is_told_in_a_line_that_names_the_program(self):
        for words in (["--bogus"], ["check"], ["resume"], ["experiments/digits.yaml", "--bogus"], ["plugins", "show"]):
            with self.subTest(words=words):
                message = self.assert_refused(*words)
                self.assertTrue(message.startswith("ddprun: error: "), message)
                self.assertIn("--help", message)

    def test_help_is_of_the_command_alone_and_fits_the_terminal(self):
        commands = re.findall(r"(?m)^  (\w+) {2,}[a-z]", self.ddprun("--help").out().split("Commands:")[1].split("Examples:")[0])
        self.assertGreater(len(commands), 10)
        for command in commands:
            text = self.ddprun(command, "--help").out()
            self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
            self.assertLessEqual(set(re.findall(r"(?m)^  ddprun (\w+)", text)), {command})

    def test_a_mistaken_command_is_told_before_anything_is_done(self):
        self.assertIn("did you mean ddprun resume?", self.assert_refused("resum", "outputs/mnist/latest"))
        self.assertIn("did you mean ddprun run?", self.assert_refused("train", "experiments/digits"))
        self.assertIn("ddprun check ...", self.assert_refused("--build", "f.cpp", "check", "experiments/digits"))

    def test_resuming_what_is_no_run(self):
        self.assertIn("nowhere", self.assert_refused("resume", "nowhere"))
        self.assertIn("is not a run folder", self.assert_refused("resume", "home"))
        self.assertEqual(list((self.folder / "home").iterdir()), [])

    def test_a_folder_that_was_deleted_under_the_command(self):
        running = self.start_program("sh", "-c", f"mkdir gone && cd gone && rmdir ../gone && exec {DDPRUN} check experiments/digits.yaml")
        self.assertEqual(running.wait(), 2)
        self.assertEqual(running.err(), "ddprun: error: the current folder was deleted; go to another one (cd)\n")

    def test_an_answer_that_a_full_disk_cuts_off_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            running = self.start("keys", stdout=full)
        self.assertEqual(running.wait(), 1)
        self.assertIn("cannot write the whole answer to standard output", running.err())

    def test_a_run_whose_output_meets_a_full_disk_says_so_once_and_goes_on(self):
        with open("/dev/full", "wb") as full:
            running = self.start("run", *SMALL, "model=mlp", "trainer.max_epochs=2", "run.dir=run", stdout=full)
        self.assertEqual(running.wait(), 0, running.err())
        self.assertEqual(running.err().count("cannot write to standard output: No space left on device"), 1, running.err())

    def test_an_unknown_plugin_to_show(self):
        self.assertIn("there is no plugin convne; did you mean convnet?", self.assert_refused("plugins", "show", "convne"))

    def test_checking_what_is_no_plugin(self):
        (self.folder / "my_net.so").write_text("no library")
        checked = self.ddprun("plugins", "check", "my_net.so", "digits", code=1)
        self.assertRegex(checked.out(), r"(?m)^my_net.so\n  wrong  ")
        self.assertRegex(checked.out(), r"(?m)^  ok     it is constructed: \d+ options$")
        self.assertIn("2 plugins checked, 1 failed\n", checked.out())
        self.assertIn("did you mean convnet?", self.assert_refused("plugins", "check", "convne"))
        self.assertIn("./my_nut.so: there is no such file", self.assert_refused("plugins", "check", "./my_nut.so"))

    def test_a_resumed_run_refuses_what_would_change_its_samples(self):
        self.ddprun(*SMALL, "model=mlp", "trainer.max_epochs=1", "run.dir=run")
        before = all_rows(self.folder / "run")
        running = self.ddprun("resume", "run", "trainer.global_batch=32", code=2)
        self.assertIn("trainer.global_batch is 32, but ", running.err())
        self.assertEqual(all_rows(self.folder / "run"), before)


if __name__ == "__main__":
    unittest.main()

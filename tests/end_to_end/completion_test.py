# SPDX-License-Identifier: MIT
"""Completion as shells ask for it: in a real bash, zsh and fish, and what `ddprun complete` answers."""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import time
import unittest

from command import DDPRUN, SMALL, CommandTest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools/completion"


class Words(CommandTest):
    def complete(self, *words, env=None):
        running = self.ddprun("complete", *words, env=env)
        self.assertEqual(running.err(), "")
        return [line.split("\t")[0] for line in running.out().splitlines()]

    def test_commands_and_experiments_begin_a_line(self):
        self.assertEqual(self.complete("re"), ["resume", "report"])
        self.assertIn("experiments/digits.yaml", self.complete(""))
        self.assertIn("--multirun", self.complete("--m"))
        self.assertEqual(self.complete("plugins", "sh"), ["show"])
        self.assertEqual(self.complete("plugins", "show", "convnet_"), ["convnet_bn"])
        self.assertEqual(self.complete("predict", "r", "--split", "t"), ["train", "test"])
        self.assertEqual(self.complete("predict", "r", "--input", "h"), ["home/"])

    def test_keys_are_those_of_the_experiments_own_plugins(self):
        self.assertEqual(self.complete("experiments/digits.yaml", "optimizer.l"), ["optimizer.lr="])
        self.assertEqual(self.complete("experiments/digits.yaml", "model.h"), [])
        self.assertEqual(self.complete("experiments/digits.yaml", "model=mlp", "model.h"), ["model.hidden="])
        self.assertEqual(self.complete("check", "experiments/digits.yaml", "trainer.pre"),
                         ["trainer.prefetch_threads=", "trainer.prefetch_batches=", "trainer.precision="])
        self.assertEqual(self.complete("experiments/digits.yaml", "optim"), ["optimizer.", "optimizer="])
        self.assertEqual(self.complete("experiments/digits.yaml", "~early"), ["~early_stopping.", "~early_stopping"])

    def test_values_are_plugins_files_of_groups_words_and_defaults(self):
        line = "experiments/digits.yaml"
        self.assertEqual(self.complete(line, "model=mo"), ["model=mobilenet_v3"])
        self.assertEqual(self.complete(line, "trainer="), ["trainer=reproducible", "trainer=smoke"])
        self.assertEqual(self.complete(line, "trainer.precision=bf"), ["trainer.precision=bf16", "trainer.precision=bf16_pure"])
        self.assertEqual(self.complete(line, "trainer.shuffle="), ["trainer.shuffle=true", "trainer.shuffle=false"])
        self.assertEqual(self.complete(line, "schedule.name=co"), ["schedule.name=constant", "schedule.name=cosine"])
        self.assertEqual(self.complete(line, "optimizer.lr="), ["optimizer.lr=0.01"])
        self.assertEqual(self.complete(line, "+loggers=te"), ["+loggers=tensorboard"])
        self.assertEqual(self.complete(line, "dataset=mnist", "dataset.root=h"), ["dataset.root=home/"])

    def test_runs_their_checkpoints_and_their_keys(self):
        self.ddprun(*SMALL, "model=mlp", "trainer.max_steps=2")
        self.assertEqual(self.complete("resume", "")[0], "outputs/digits/latest")
        self.assertEqual(self.complete("evaluate", "outputs/digits/latest", "step"), ["step_00000002"])
        self.assertEqual(self.complete("resume", "outputs/digits/latest", "model.hid"), ["model.hidden="])

    def test_a_plugin_of_ones_own_is_known_where_it_is_found(self):
        own = {"DDPRUN_PLUGIN_PATH": str(DDPRUN.parents[1] / "tests/several_inputs")}
        self.assertEqual(self.complete("experiments/digits.yaml", "model=ba"), [])
        self.assertEqual(self.complete("experiments/digits.yaml", "model=ba", env=own), ["model=bag"])

    def test_mistakes_are_none_of_the_moments(self):
        (self.folder / "e.yaml").write_text("model: [")
        for words in (["nonsense", "x"], ["e.yaml", "model."], ["experiments/digits.yaml", "="], ["experiments/digits.yaml", "a.b.c.d"], [], ["evaluate"],
                      ["\x1b", ""], ["experiments/digits.yaml", "model.hiden=3", "model.x=", "trainer"]):
            with self.subTest(words=words):
                running = self.start("complete", *words)
                self.assertIn(running.wait(), (0, 1))
                self.assertEqual(running.err(), "")

    def test_it_answers_without_loading_torch(self):
        libraries = subprocess.run(["ldd", DDPRUN.parents[1] / "libexec/ddprun-complete"], capture_output=True, text=True, check=True).stdout
        self.assertNotRegex(libraries, "libtorch|libc10")
        traced = self.start("complete", "re", env={"LD_DEBUG": "files"})
        self.assertEqual(traced.wait(), 0)
        self.assertNotRegex(traced.err(), r"calling init: \S*libtorch")


class Shells(CommandTest):
    def type_in(self, *shell, setup, keys, expected):
        """Presses Tab after the keys in a shell on a terminal, until what is expected stands there."""
        found = shutil.which(shell[0])
        if not found:
            self.skipTest(f"there is no {shell[0]}")
        master, slave = pty.openpty()
        environment = self.environment({"TERM": "dumb", "PATH": f"{DDPRUN.parent}:{os.environ['PATH']}"})
        process = subprocess.Popen([found, *shell[1:]], cwd=self.folder, env=environment, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        self.addCleanup(os.close, master)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.write(master, f"{setup}; echo re'a'dy\n".encode())
        self.read_until(master, r"ready")
        os.write(master, keys.encode() + b"\t")
        self.read_until(master, expected)

    def read_until(self, master, pattern):
        text, deadline = "", time.monotonic() + 30
        while not re.search(pattern, text):
            if time.monotonic() > deadline:
                self.fail(f"no {pattern} in {text!r}")
            if select.select([master], [], [], 0.5)[0]:
                text += os.read(master, 65536).decode(errors="replace").replace("\a", "")

    def test_bash(self):
        setup = f"bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; source {TOOLS}/ddprun.bash"
        for keys, expected in (("ddprun experiments/digits.yaml optimizer.l", r"optimizer\.lr="),
                               ("ddprun experiments/digits.yaml model=mobi", r"model=mobilenet_v3 "),
                               ("ddprun experiments/dig", r"digits\.yaml "),
                               (f"{DDPRUN} resu", r"resume ")):
            with self.subTest(keys=keys):
                self.type_in("bash", "--norc", "--noprofile", "-i", setup=setup, keys=keys, expected=expected)

    def test_zsh(self):
        setup = f"fpath=({TOOLS} $fpath); autoload -U compinit; compinit -u -D"
        for keys, expected in (("ddprun experiments/digits.yaml optimizer.l", r"optimizer\.lr="),
                               ("ddprun experiments/digits.yaml model=mobi", r"model=mobilenet_v3")):
            with self.subTest(keys=keys):
                self.type_in("zsh", "-f", "-i", setup=setup, keys=keys, expected=expected)

    def test_fish(self):
        if not shutil.which("fish"):
            self.skipTest("there is no fish")
        environment = self.environment({"PATH": f"{DDPRUN.parent}:{os.environ['PATH']}"})
        for line, expected in (("ddprun experiments/digits.yaml optimizer.l", "optimizer.lr=\tlearning rate"), ("ddprun resu", "resume\t")):
            asked = subprocess.run(["fish", "--no-config", "-c", f"source {TOOLS}/ddprun.fish; complete -C '{line}'"], cwd=self.folder, env=environment,
                                   capture_output=True, text=True, check=False, timeout=60)
            self.assertIn(expected, asked.stdout, asked.stderr)


if __name__ == "__main__":
    unittest.main()

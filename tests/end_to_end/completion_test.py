# SPDX-License-Identifier: MIT
"""Completion as shells ask for it: in a real bash, zsh and fish, and what the file that all of them ask answers."""

import os
import pty
import re
import select
import shutil
import subprocess
import time
import unittest

from command import DDPRUN, SMALL, CommandTest

SHARE = DDPRUN.parents[1] / "share"
FILE = SHARE / "bash-completion/completions/ddprun"
DIGITS = "experiments/digits.yaml"


class Words(CommandTest):
    def complete(self, *words, env=None):
        running = self.start_program("bash", FILE, *words, env=env)
        self.assertEqual((running.wait(), running.err()), (0, ""))
        return [line.split("\t")[0] for line in running.out().splitlines()]

    def test_commands_and_experiments_begin_a_line(self):
        self.assertEqual(self.complete("re"), ["resume", "replay", "report"])
        self.assertIn(DIGITS, self.complete(""))
        self.assertIn("--multirun", self.complete("--m"))
        self.assertEqual(self.complete("--quiet", "plugins", "sh"), ["show"])
        self.assertEqual(self.complete("plugins", "show", "convnet_"), ["convnet_bn"])
        self.assertEqual(self.complete("predict", "r", "--split", "t"), ["train", "test"])
        self.assertEqual(self.complete("predict", "r", "--input", "h"), ["home/"])
        self.assertEqual(self.complete("schema", "--group", "lo"), ["logger"])
        self.assertEqual(self.complete("keys", "early"), ["early_stopping"])
        self.assertEqual(self.complete("docs", "tr"), ["training"])
        self.assertEqual(self.complete(DIGITS, "--nnodes", ""), [])
        self.assertEqual(self.complete("check", "--no-data", "experiments/dig"), [DIGITS])

    def test_keys_are_those_of_the_experiments_own_plugins(self):
        self.assertEqual(self.complete(DIGITS, "optimizer.l"), ["optimizer.lr="])
        self.assertEqual(self.complete(DIGITS, "model.h"), [])
        self.assertEqual(self.complete(DIGITS, "model=mlp", "model.h"), ["model.hidden="])
        self.assertEqual(self.complete(DIGITS, "optimizer=adamw", "optimizer.b"), ["optimizer.betas="])
        self.assertEqual(self.complete("check", DIGITS, "trainer.pre"),
                         ["trainer.prefetch_threads=", "trainer.prefetch_batches=", "trainer.precision="])
        self.assertEqual(self.complete(DIGITS, "optim"), ["optimizer.", "optimizer="])
        self.assertEqual(self.complete(DIGITS, "~early"), ["~early_stopping.", "~early_stopping"])
        self.assertEqual(self.complete("nowhere.yaml", "model.hidd"), ["model.hidden="], "of any plugin where none is chosen")

    def test_keys_follow_what_an_experiment_of_ones_own_chooses(self):
        for text, chosen in (("model: mlp", "mlp"), ("model: {plugin: mlp, hidden: 3}", "mlp"), ("model:\n  plugin: mlp  # small", "mlp"),
                             ("defaults: [experiments/mnist, model/mlp]", "mlp"), ("defaults:\n  - model: mlp", "mlp"),
                             ("defaults: [experiments/digits]", "convnet"), ("defaults: [model/mlp]\nmodel:\n  plugin: convnet", "convnet")):
            with self.subTest(text=text):
                (self.folder / "e.yaml").write_text(text + "\n")
                self.assertEqual(self.complete("e.yaml", "model.hid"), ["model.hidden="] if chosen == "mlp" else [])

    def test_values_are_plugins_files_of_groups_words_and_defaults(self):
        self.assertEqual(self.complete(DIGITS, "model=mo"), ["model=mobilenet_v3"])
        self.assertEqual(self.complete(DIGITS, "trainer="), ["trainer=reproducible", "trainer=smoke"])
        self.assertEqual(self.complete(DIGITS, "trainer.precision=bf"), ["trainer.precision=bf16", "trainer.precision=bf16_pure", "trainer.precision=bf16_master"])
        self.assertEqual(self.complete(DIGITS, "trainer.shuffle="), ["trainer.shuffle=true", "trainer.shuffle=false"])
        self.assertEqual(self.complete(DIGITS, "schedule.name=co"), ["schedule.name=constant", "schedule.name=cosine"])
        self.assertEqual(self.complete(DIGITS, "optimizer.lr="), ["optimizer.lr=0.01"])
        self.assertEqual(self.complete(DIGITS, "+loggers=tens"), ["+loggers=tensorboard"])
        self.assertEqual(self.complete(DIGITS, "dataset=mnist", "dataset.root=h"), ["dataset.root=home/"])

    def test_files_of_ones_own_groups_are_known(self):
        for name in ("experiments/mine", "model/small", "logger/quiet"):
            (self.folder / "own" / name).parent.mkdir(parents=True)
            (self.folder / f"own/{name}.yaml").write_text("plugin: mlp\n")
        own = {"DDPRUN_CONFIG_PATH": f"nowhere:{self.folder}/own"}
        self.assertEqual(self.complete("experiments/mi", env=own), ["experiments/mine.yaml"])
        self.assertEqual(self.complete(DIGITS, "model=s", env=own), ["model=small"])
        self.assertEqual(self.complete(DIGITS, "loggers=q", env=own), ["loggers=quiet"])

    def test_runs_their_checkpoints_and_their_keys(self):
        self.ddprun(*SMALL, "model=mlp", "trainer.max_steps=2")
        self.assertEqual(self.complete("resume", "")[0], "outputs/digits/latest")
        self.assertEqual(self.complete("evaluate", "outputs/digits/latest", "step"), ["step_00000002"])
        self.assertEqual(self.complete("resume", "outputs/digits/latest", "model.hid"), ["model.hidden="])
        self.assertEqual(self.complete("report", "outputs/digits/latest", "outputs/digits/l"), ["outputs/digits/latest", "outputs/digits/latest/"])

    def test_mistakes_are_none_of_the_moments(self):
        (self.folder / "e.yaml").write_text("  x\nmodel: [\nb]d: *\n")
        for words in (["nonsense", "x"], ["e.yaml", "model."], [DIGITS, "="], [DIGITS, "a.b.c.d"], [], ["evaluate"], ["evaluate", "*", "*"],
                      ["\x1b", ""], [DIGITS, "model.hiden=3", "model.x=", "trainer"], ["]", "@", "]=", "@.[="], [DIGITS, "model=]", "model."]):
            with self.subTest(words=words):
                self.complete(*words)

    def test_nothing_that_is_read_is_evaluated(self):
        command = "a[$(touch evaluated)]"
        (self.folder / command).write_text("")
        (self.folder / "e.yaml").write_text(f"defaults: [model/{command}]\nmodel: {command}\n{command}: 3\n  plugin: {command}\n")
        for words in (["e.yaml", "model."], ["predict", "r", "--input", "a"], [command, f"model={command}", "model."], [command, command, ""], [f"{command}="]):
            self.complete(*words)
        self.assertFalse((self.folder / "evaluated").exists())

    def test_it_answers_without_the_program(self):
        shutil.copy(FILE, self.folder / "copied")
        answer = subprocess.run(["bash", self.folder / "copied", DIGITS, "optimizer.l"], cwd=self.folder, env={"PATH": "/usr/bin:/bin"},
                                capture_output=True, text=True, check=True).stdout
        self.assertRegex(answer, r"^optimizer\.lr=\tlearning rate")


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
        setup = f"bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; source {FILE}"
        for keys, expected in (("ddprun experiments/digits.yaml optimizer.l", r"optimizer\.lr="),
                               ("ddprun experiments/digits.yaml model=mobi", r"model=mobilenet_v3 "),
                               ("ddprun experiments/dig", r"digits\.yaml "),
                               (f"{DDPRUN} resu", r"resume ")):
            with self.subTest(keys=keys):
                self.type_in("bash", "--norc", "--noprofile", "-i", setup=setup, keys=keys, expected=expected)

    def test_zsh(self):
        setup = f"fpath=({SHARE}/zsh/site-functions $fpath); autoload -U compinit; compinit -u -D"
        for keys, expected in (("ddprun experiments/digits.yaml optimizer.l", r"optimizer\.lr="),
                               ("ddprun experiments/digits.yaml model=mobi", r"model=mobilenet_v3")):
            with self.subTest(keys=keys):
                self.type_in("zsh", "-f", "-i", setup=setup, keys=keys, expected=expected)

    def test_fish(self):
        if not shutil.which("fish"):
            self.skipTest("there is no fish")
        environment = self.environment({"PATH": f"{DDPRUN.parent}:{os.environ['PATH']}"})
        for line, expected in (("ddprun experiments/digits.yaml optimizer.l", "optimizer.lr=\tlearning rate"), ("ddprun resu", "resume\t")):
            asked = subprocess.run(["fish", "--no-config", "-c", f"source {SHARE}/fish/vendor_completions.d/ddprun.fish; complete -C '{line}'"], cwd=self.folder, env=environment,
                                   capture_output=True, text=True, check=False, timeout=60)
            self.assertIn(expected, asked.stdout, asked.stderr)


if __name__ == "__main__":
    unittest.main()

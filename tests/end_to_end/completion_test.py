# SPDX-License-Identifier: MIT
"""Completion as shells ask for it: what the file that all of them ask answers, and in a real bash, zsh and fish."""

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
RUN = "outputs/digits/latest"

# What is typed, and what is offered for its last word. Where nothing is, the shell offers files.
OFFERED = (
    ("re", "resume replay report"),
    ("--m", "--multirun --max-restarts --master-addr --master-port"),
    ("--quiet plugins sh", "show"),
    ("plugins show convnet_", "convnet_bn"),
    ("predict r --split t", "train test"),
    ("predict r --split test b", "best"),
    ("schema --group lo", "logger"),
    ("keys early", "early_stopping"),
    ("docs tr", "training"),
    (f"{DIGITS} --nnodes ", ""),
    ("check --no-data experiments/dig", DIGITS),
    # The keys are those of the experiment's own plugins.
    (f"{DIGITS} optimizer.l", "optimizer.lr="),
    (f"{DIGITS} model.h", ""),
    (f"{DIGITS} model=mlp model.h", "model.hidden="),
    (f"{DIGITS} optimizer=adamw optimizer.b", "optimizer.betas="),
    (f"check {DIGITS} trainer.pre", "trainer.prefetch_threads= trainer.prefetch_batches= trainer.precision="),
    (f"{DIGITS} optim", "optimizer. optimizer="),
    ("nowhere.yaml model.hidd", "model.hidden="),  # of any plugin where none is chosen
    # Values: plugins, files of groups, words, and defaults.
    (f"{DIGITS} model=ker", "model=keras_convnet"),
    (f"{DIGITS} trainer=", "trainer=reproducible trainer=smoke"),
    (f"{DIGITS} trainer.precision=bf", "trainer.precision=bf16 trainer.precision=bf16_pure trainer.precision=bf16_master"),
    (f"{DIGITS} trainer.shuffle=", "trainer.shuffle=true trainer.shuffle=false"),
    (f"{DIGITS} schedule.name=co", "schedule.name=constant schedule.name=cosine"),
    (f"{DIGITS} optimizer.lr=", "optimizer.lr=0.01"),
    (f"{DIGITS} +loggers=tens", "+loggers=tensorboard"),
)


class Words(CommandTest):
    def complete(self, line):
        running = self.start_program("bash", FILE, f"ddprun {line}")
        self.assertEqual((running.wait(), running.err()), (0, ""))
        return running.out().splitlines()

    def assert_offered(self, line, words):
        self.assertEqual({word.strip() for word in self.complete(line)}, set(words.split()))

    def test_what_is_typed_is_completed(self):
        for line, words in OFFERED:
            with self.subTest(line=line):
                self.assert_offered(line, words)
        self.assertLessEqual({"resume ", f"{DIGITS} "}, set(self.complete("")))

    def test_keys_follow_what_an_experiment_of_ones_own_chooses(self):
        for text, chosen in (("model: mlp", "mlp"), ("model: {plugin: mlp, hidden: 3}", "mlp"), ("model:\n  plugin: mlp  # small", "mlp"),
                             ("defaults: [experiments/mnist, model/mlp]", "mlp"), ("defaults:\n  - model: mlp", "mlp"),
                             ("defaults: [experiments/digits]", "convnet")):
            with self.subTest(text=text):
                (self.folder / "e.yaml").write_text(text + "\n")
                self.assert_offered("e.yaml model.h", "model.hidden=" if chosen == "mlp" else "")

    def test_runs_and_their_keys(self):
        self.ddprun(*SMALL, "model=mlp", "trainer.max_steps=2")
        self.assertIn(f"{RUN} ", self.complete("resume "))
        self.assert_offered(f"resume {RUN} model.h", "model.hidden=")
        self.assert_offered(f"report {RUN} outputs/digits/l", RUN)

    def test_mistakes_are_none_of_the_moments(self):
        (self.folder / "e.yaml").write_text("  x\nmodel: [\nb]d: *\n")
        for line in ("nonsense x", "e.yaml model.", f"{DIGITS} =", f"{DIGITS} a.b.c.d", "", "evaluate", "evaluate * *", "\x1b ",
                     f"{DIGITS} model.hiden=3 model.x= trainer", "] @ ]= @.[=", f"{DIGITS} model=] model."):
            with self.subTest(line=line):
                self.complete(line)

    def test_nothing_that_is_read_is_evaluated_or_left_to_the_shell(self):
        command = "a[$(touch${IFS}evaluated)]"
        (self.folder / "outputs/x" / command).mkdir(parents=True)
        (self.folder / "e.yaml").write_text(f"defaults: [model/{command}]\nmodel: {command}\n{command}: 3\n  plugin: {command}\n")
        for line in ("e.yaml model.", "predict r --input a", f"{command} model={command} model.", f"{command} {command} ", f"{command}=", "resume "):
            self.assertNotIn("touch", "".join(self.complete(line)))
        self.assertFalse((self.folder / "evaluated").exists())

    def test_it_answers_without_the_program(self):
        shutil.copy(FILE, self.folder / "copied")
        answer = subprocess.run(["bash", self.folder / "copied", f"ddprun {DIGITS} optimizer.l"], cwd=self.folder, env={"PATH": "/nowhere"},
                                executable=shutil.which("bash"), capture_output=True, text=True, check=True).stdout
        self.assertEqual(set(answer.splitlines()), {"optimizer.lr="})


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

    def check(self, *shell, setup):
        (self.folder / "my photo.jpg").write_text("")
        (self.folder / "pictures").mkdir()
        for keys, expected in (("ddprun experiments/digits.yaml optimizer.l", r"optimizer\.lr="),
                               ("ddprun experiments/digits.yaml model=wide", r"model=wide_resnet "),
                               ("ddprun experiments/dig", r"digits\.yaml "),
                               (f"{DDPRUN} resu", r"resume "),
                               ("ddprun predict r --input my", r"my\\ photo\.jpg"),
                               ("ddprun e.yaml dataset.root=pict", r"root=pictures/")):
            with self.subTest(keys=keys):
                self.type_in(*shell, setup=setup, keys=keys, expected=expected)

    def test_bash(self):
        self.check("bash", "--norc", "--noprofile", "-i", setup=f"bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; source {FILE}")

    def test_zsh(self):
        self.check("zsh", "-f", "-i", setup=f"setopt magic_equal_subst; autoload -U compinit; compinit -u -D; source {FILE}")

    def test_fish(self):
        if not shutil.which("fish"):
            self.skipTest("there is no fish")
        environment = self.environment({"PATH": f"{DDPRUN.parent}:{os.environ['PATH']}"})
        for line, expected in (("ddprun experiments/digits.yaml optimizer.l", "optimizer.lr=\n"), ("ddprun resu", "resume\n")):
            asked = subprocess.run(["fish", "--no-config", "-c", f"source {SHARE}/fish/vendor_completions.d/ddprun.fish; complete -C '{line}'"], cwd=self.folder, env=environment,
                                   capture_output=True, text=True, check=False, timeout=60)
            self.assertIn(expected, asked.stdout, asked.stderr)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""The folder of a run may be anybody's: who looks at it reads no file outside, waits for nothing, and runs none of its code."""

import itertools
import os
import pathlib
import random
import shutil
import stat
import sys
import unittest

from command import DDPRUN, NIGHTLY, SMALL, CommandTest

SECRET = "hunter2-is-the-password"
FOLDER = "checkpoints/step_00000002"
FILES = (
    "config.yaml", "overrides.txt", "environment.json", "summary.json", "run.json", "data.json", "metrics.jsonl", "tables.jsonl",
    "events.jsonl", ".lock", ".attempts", "kept_elsewhere.txt", "logs/rank_0.log", f"{FOLDER}/manifest.json",
    f"{FOLDER}/model.safetensors", f"{FOLDER}/optimizer.safetensors", f"{FOLDER}/state.json", "checkpoints/best", "report.html",
)  # fmt: skip
SAMPLED = 30  # of all cases, in each test run; the night takes them all
COMPLETION = DDPRUN.parents[1] / "share/bash-completion/completions/ddprun"
SITE = str(pathlib.Path(__file__).resolve().parents[2] / "sdk/python")
LOOK = """import sys; sys.path.insert(0, sys.argv[1])
import ddprun
try:
    run = ddprun.run(sys.argv[2])
    print(run.status, run.config, run.summary, run.overrides, run.started, run.metrics(), run.checkpoints(), run._repr_html_())
except ddprun.UserError as error:
    sys.exit(f"error: {error}")
"""


KINDS = {
    "pipe": lambda file, secret: os.mkfifo(file),
    "endless": lambda file, secret: file.symlink_to("/dev/zero"),
    "secret": lambda file, secret: file.symlink_to(secret),
    "folder": lambda file, secret: file.mkdir(),
    "hole": lambda file, secret: (file.touch(), os.truncate(file, 1 << 40)),
    "closed": lambda file, secret: (file.touch(), file.chmod(0)),
}
COMMANDS = {
    "list": lambda run: (DDPRUN, "list", run.parent),
    "report": lambda run: (DDPRUN, "report", run),
    "verify": lambda run: (DDPRUN, "verify", run),
    "resume": lambda run: (DDPRUN, "resume", run, "launch.hang_seconds=30"),
    "export": lambda run: (DDPRUN, "export", run, "--out", run.parent / "out.safetensors"),
    "complete": lambda run: ("bash", COMPLETION, f"ddprun resume {run} model."),
    "python": lambda run: (sys.executable, "-B", "-c", LOOK, SITE, run),
}


class ForeignRun(CommandTest):
    def train(self, *words):
        self.ddprun(*SMALL, "model=mlp", "trainer.max_steps=2", "run.dir=made", "loggers=[jsonl]", *words)
        return self.folder / "made"

    def test_no_file_of_it_is_waited_for_or_leads_out(self):
        made = self.train()
        cases = list(itertools.product(FILES, KINDS, COMMANDS))
        for number, case in enumerate(cases if NIGHTLY else random.Random(7).sample(cases, SAMPLED)):
            name, kind, command = case
            with self.subTest(name=name, kind=kind, command=command):
                place = self.folder / f"case{number}"
                (self.folder / "secret").write_text(f"{SECRET}\n")
                shutil.copytree(made, place / "run", symlinks=True)
                shutil.copytree(made, place / "good", symlinks=True)
                file = place / "run" / name
                file.unlink(missing_ok=True)
                KINDS[kind](file, self.folder / "secret")
                running = self.start_program(*COMMANDS[command](place / "run"))
                code = running.wait(60)
                self.check(place, command, code, running)
                shutil.rmtree(place)

    def check(self, place, command, code, running):
        self.assertIn(code, (0, 1, 2), running.text())
        for word in (SECRET, "internal error", "Traceback", "terminate called"):
            self.assertNotIn(word, running.text())
        if code == 2:
            self.assertEqual(running.err().count("error: "), 1, running.text())
        for made in place.rglob("*"):
            if made.name in ("report.html", "out.safetensors") and stat.S_ISREG(made.lstat().st_mode):
                with open(made, "rb") as stream:
                    self.assertNotIn(SECRET.encode(), stream.read(1 << 24))
        if command == "list":
            self.assertEqual(code, 0, running.text())
            self.assertRegex(running.out(), r"(?m)^good +completed ")
        self.assertEqual((self.folder / "secret").read_text(), f"{SECRET}\n", "it was written to")

    def test_none_of_its_code_runs_where_it_is_only_looked_at(self):
        made, mark = self.train(), self.folder / "mark"
        plugins = DDPRUN.parents[1] / "tests/marks_loading"
        with open(made / "config.yaml", "a") as file:
            file.write(f'plugin_path:\n  - "{plugins}"\n')
        own = self.folder / "own.yaml"
        own.write_text(f"defaults: [experiments/digits]\nmodel: {{plugin: marking}}\nplugin_path: [{plugins}]\n")
        env = {"LOADING_MARK": str(mark)}
        for words in (["list", "."], ["report", made], ["verify", made], ["export", made, "--out", "a.safetensors"],
                      ["export", made, "--out", "a.pt"]):
            with self.subTest(words=words):
                running = self.start(*words, env=env)
                self.assertEqual(running.wait(), 0, running.text())
                self.assertFalse(mark.exists())
        for line in ("ddprun resume made model.h", f"ddprun check {own} model=m"):
            running = self.start_program("bash", COMPLETION, line, env=env | {"DDPRUN_PLUGIN_PATH": str(plugins)})
            self.assertEqual(running.wait(), 0, running.text())
            self.assertRegex(running.out(), r"model.hidden=|model=mlp")
            self.assertFalse(mark.exists())
        self.start("check", own, env=env).wait()
        self.assertTrue(mark.exists(), "where it is used, it runs")

    def test_its_report_is_no_link_and_its_best_checkpoint_lies_in_it(self):
        made, elsewhere = self.train(), self.folder / "elsewhere"
        shutil.copytree(made / FOLDER, elsewhere)
        (made / "checkpoints/best").unlink(missing_ok=True)
        (made / "checkpoints/best").symlink_to(elsewhere)
        (self.folder / "page").write_text("mine")
        (made / "report.html").unlink(missing_ok=True)
        (made / "report.html").symlink_to(self.folder / "page")
        self.assertIn("is not a report of ddprun", self.ddprun("report", made, code=2).err())
        self.assertEqual((self.folder / "page").read_text(), "mine")
        self.assertIn("a link to a checkpoint beside it", self.ddprun("export", made, "best", "--out", "a.pt", code=2).err())
        self.assertRegex(self.ddprun("verify", made, code=1).out(), r"best -> \S+elsewhere  BROKEN")
        (made / "checkpoints/best").unlink()
        (made / "checkpoints/step_00000009").symlink_to(elsewhere)
        self.assertIn("step_00000009  BROKEN  step_00000009: link", self.ddprun("verify", made, code=1).out())


if __name__ == "__main__":
    unittest.main()

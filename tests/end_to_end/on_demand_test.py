# SPDX-License-Identifier: MIT
"""In a clone, tools/ddprun builds the program, and the program asks tools/build for a plugin that is not built yet: whatever names it."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

from command import SMALL, CommandTest, main
from init_test import png
from partial_clone import PARTS, PREFIX, PartialClone, named

DIGITS = "experiments/digits.yaml"
OF_DIGITS = ["models/convnet", "datasets/digits", "optimizers/sgd", "loggers/console", "loggers/csv", "loggers/jsonl"]
LISTED = PREFIX / "share/ddprun/on_demand"
PLUGINS = {part for part in PARTS if "/plugins/" in part}

# A command, and what it needs besides the plugins of digits.yaml.
WAYS = [
    (["check", "--no-data", DIGITS, "model=mlp"], {"models/mlp"}),
    (["check", "--no-data", DIGITS, "model={plugin: mlp}"], {"models/mlp"}),
    (["check", "--no-data", DIGITS, "model=clone/build/release/lib/ddprun/plugins/models/mlp.so"], {"models/mlp"}),
    (["check", "--no-data", DIGITS, "loggers=[console, tensorboard]"], {"loggers/tensorboard"}),
    (["check", "--no-data", DIGITS, "+loggers=tensorboard"], {"loggers/tensorboard"}),
    (["check", "--no-data", "own.yaml"], {"models/lenet", "optimizers/adam"}),
    (["data", DIGITS, "dataset=friedman", "--out", "d.html"], {"datasets/friedman"}),
    (["submit", "--slurm", "--dry-run", DIGITS, "model=unet"], {"models/unet"}),
    (["plugins", "show", "unet"], {"models/unet"}),
    (["plugins", "show", "exported", "--kind", "objective"], {"objectives/exported"}),
    (["plugins", "check", "muon"], {"optimizers/muon"}),
    (["init", "photos"], {"datasets/image_folder", "models/convnet_bn", "optimizers/adamw"}),
    (["find-lr", *SMALL, "model=mlp", "--steps=10"], {"models/mlp"}),
    (["-m", *SMALL, "trainer.max_steps=1", "model=mlp,lenet"], {"models/mlp", "models/lenet"}),
]  # fmt: skip

# What is made of a run: its own plugins, all of which are gone.
OF_A_RUN = [["resume", "run"], ["evaluate", "run"], ["predict", "run", "--out", "p.csv"], ["export", "run", "--out", "w.pt2"],
            ["replay", "run", "--step=1"]]  # fmt: skip


class OnDemand(CommandTest):
    def environment(self, changes=None):
        return super().environment({"DDPRUN_ON_DEMAND": ""} | (changes or {}))

    def setUp(self):
        super().setUp()
        self.clone = PartialClone(self.folder / "clone")
        self.clone.put(*OF_DIGITS)

    def start(self, *arguments, **options):
        return self.start_program(self.clone.program, *arguments, **options)

    def assert_built(self, *names):
        """Each once, in any number of calls."""
        parts = [part for call in self.clone.calls() for part in call]
        self.assertEqual(sorted(parts), sorted(named(*names)))

    def test_what_an_experiment_names_is_built_at_once(self):
        self.clone.put()
        ran = self.ddprun("check", "--no-data", DIGITS)
        self.assertEqual(self.clone.calls(), [named(*OF_DIGITS)])
        self.assertIn("a line of the build", ran.err())
        self.assertNotIn("a line of the build", ran.out())
        again = self.ddprun("check", "--no-data", DIGITS)
        self.assertEqual((self.clone.calls(), again.out()), ([], ran.out()))

    def test_whatever_names_a_plugin_builds_it(self):
        (self.folder / "own.yaml").write_text("defaults: [experiments/digits, model/lenet]\noptimizer: {plugin: adam, lr: 0.001}\n")
        for label in ("cat", "dog"):
            (self.folder / "photos" / label).mkdir(parents=True)
            (self.folder / "photos" / label / "1.png").write_bytes(png(2, (0, 0, 0)))
        for words, needed in WAYS:
            with self.subTest(" ".join(words)):
                self.clone.put(*OF_DIGITS)
                running = self.start(*words)
                running.wait()
                self.assert_built(*(needed - set(OF_DIGITS)))
                self.assertNotIn("there is no", running.err())

    def test_what_is_made_of_a_run_builds_what_its_record_names(self):
        self.ddprun(*SMALL, "trainer.max_steps=2", "run.dir=run")
        for words in OF_A_RUN:
            with self.subTest(words[0]):
                self.clone.put()
                running = self.start(*words)
                self.assertEqual(running.wait(), 0, running.text())
                built = set().union(*self.clone.calls())
                self.assertLessEqual(named("models/convnet"), built)
                self.assertLessEqual(built, named(*OF_DIGITS))

    def test_what_lists_plugins_builds_all_and_each_is_called_as_its_file(self):
        for words in (["plugins"], ["schema", "--out", "s.json"], ["complete"]):
            with self.subTest(words[0]):
                self.clone.put(*OF_DIGITS)
                ran = self.ddprun(*words)
                self.assertEqual(set().union(*self.clone.calls()), PLUGINS - named(*OF_DIGITS))
        listed = re.findall(r"^(\w+) +(\w+) ", self.ddprun("plugins").out(), re.MULTILINE)[1:]
        self.assertEqual(named(*(f"{kind}s/{name}" for kind, name in listed)), PLUGINS)

    @unittest.skipUnless((PREFIX / "build.ninja").exists() and LISTED.exists(), "needs build/release of a clone")
    def test_the_list_of_the_build_has_each_plugin_and_backend(self):
        listed = LISTED.read_text().splitlines()
        self.assertEqual([part for part in PARTS if part not in listed], [])
        ninja = pathlib.Path(__file__).resolve().parents[2] / ".venv/bin/ninja"
        subprocess.run([ninja, "-C", PREFIX, "-t", "query", *listed], stdout=subprocess.DEVNULL, check=True)

    def test_names_of_what_is_not_built_are_known(self):
        self.assertIn("there is no model plugin resnet18; did you mean resnet?", self.assert_refused(DIGITS, "model=resnet18"))
        self.assertIn("muon is an optimizer plugin, but a model is needed here", self.assert_refused(DIGITS, "model=muon"))
        self.assertIn("did you mean exported?", self.assert_refused(DIGITS, "objective=exportd"))
        self.assertEqual(self.clone.calls(), [])

    def test_a_plugin_of_ones_own_clashes_with_one_that_is_not_built(self):
        mine = self.folder / "mine/my_mlp.so"
        mine.parent.mkdir()
        shutil.copy2(PREFIX / "lib/ddprun/plugins/models/mlp.so", mine)
        self.assertIn("the name mlp is ambiguous", self.assert_refused(DIGITS, "model=mlp", f"+plugin_path={mine.parent}"))
        self.clone.put(*OF_DIGITS)
        self.assertIn("the name is taken", self.ddprun("plugins", "check", mine, code=1).out())

    def test_a_failed_build_is_reported_once(self):
        (self.clone.folder / "broken").touch()
        reported = self.assert_refused(DIGITS, "model=mlp", "optimizer=adam")
        self.assertRegex(reported, "x.cpp:1: error: broken\n.*model mlp, optimizer adam are not built, and needed here: the lines above say why")
        self.assertEqual(self.clone.calls(), [named("models/mlp", "optimizers/adam")])

    def test_where_nothing_may_be_built_it_says_how_to(self):
        reported = self.assert_refused(DIGITS, "model=mlp", env={"DDPRUN_ON_DEMAND": "no"})
        self.assertIn(f"model mlp is not built yet, and nothing is built here; in a shell: {self.clone.build} lib/ddprun/plugins/models/mlp.so",
                      reported)
        self.assertEqual(self.clone.calls(), [])

    def test_an_installed_one_builds_nothing(self):
        (self.clone.prefix / "share/ddprun/on_demand").unlink()
        self.assertIn("there is no model plugin mlp; ", self.assert_refused(DIGITS, "model=mlp"))
        self.assertEqual(self.clone.calls(), [])

    def test_two_at_once_both_carry_on(self):
        both = [self.start("check", "--no-data", DIGITS, "model=mlp") for _ in range(2)]
        self.assertEqual([running.wait() for running in both], [0, 0], both[0].text() + both[1].text())

    def test_half_a_file_of_a_build_that_is_under_way_is_not_read(self):
        half = self.clone.prefix / "lib/ddprun/plugins/models/mlp.so"
        half.write_text("half a libr")
        (self.clone.prefix / ".building").touch()
        self.ddprun("check", "--no-data", DIGITS, "model=mlp")
        self.assertLessEqual(named("models/mlp"), self.clone.calls()[0])

    def test_a_program_that_the_build_has_replaced_does_not_carry_on(self):
        build = self.clone.build.read_text()
        for replaced, model in (("bin/ddprun", "mlp"), ("lib/ddprun/program.so", "lenet")):
            file, new = self.clone.prefix / replaced, self.folder / "new"
            self.clone.build.write_text(f'{build}cp "{file}" "{new}"; mv "{new}" "{file}"\n')
            self.assertIn("please repeat the command", self.assert_refused(DIGITS, f"model={model}"))
            self.ddprun("check", "--no-data", DIGITS, f"model={model}")

    def test_signals_end_the_command_and_the_build(self):
        (self.clone.folder / "slow").touch()
        for words in (["check", DIGITS], [DIGITS], ["-m", DIGITS, "seed=1,2"]):
            for number, code in ((signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 75 if words == [DIGITS] else -signal.SIGTERM)):
                with self.subTest(f"{number.name} {' '.join(words)}"):
                    process = subprocess.Popen([self.clone.program, *words, "model=mlp"], stderr=subprocess.PIPE, cwd=self.folder,
                                               env=self.environment(), start_new_session=True)
                    self.assertEqual(process.stderr.readline(), b"compiling\n")
                    os.killpg(process.pid, number)
                    self.assertEqual(process.wait(60), code)
                    process.stderr.close()
                    self.assert_nothing_left()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""What tools/sweep writes and says: nothing in it is obeyed by a shell, a reader of YAML or a terminal, and a power cut takes none of it
back."""

import contextlib
import errno
import io
import os
import unittest
import unittest.mock

import optuna
from optuna.trial import TrialState as State
from sweep_file_case import SweepFileTest  # first: it knows where the tools lie

from ddprun.errors import UserError
from sweep import commands
from sweep.active_trial import ActiveTrial
from sweep.arguments import parse_arguments
from sweep.best import write_best
from sweep.report import page_line, report_study
from sweep.storage import Storage, parse
from sweep.study import REASON
from sweep.sweep_file import Metric
from sweep.sweeper import say

HEAD = "experiment: e.yaml\nmethod: random\nmetric: {name: val/loss}\nrun_cap: 9\n"  # four lines


class ArrayScript(SweepFileTest):
    """What tools/sweep --slurm writes, without a Slurm."""

    def submit(self, *words, folder="sweep", name="made", storage="postgresql://me@host/base", dry=("--dry-run",)):
        file = self.folder / "made.yaml"
        file.write_text(HEAD + "parameters: {x: {min: 0.0, max: 1.0}}\n")
        options = parse_arguments([str(file), "--slurm", *dry, "--name", name, "--storage", storage,
                                   "--out", str(self.folder / folder), "--ddprun", "true", *words])[1]  # fmt: skip
        script = io.StringIO()
        with contextlib.redirect_stdout(script):
            self.assertEqual(commands.submit(options), 0)
        return script.getvalue().splitlines()

    def test_each_text_is_one_word_for_sbatch(self):
        lines = self.submit("--sbatch=--comment=two words; $(no)", "--sbatch=-H", name="a b", folder="My 100% Drive")
        self.assertIn("#SBATCH --job-name='a b'", lines)
        self.assertIn(f"#SBATCH --output='{self.folder}/My 100%% Drive'/slurm-%A_%a.out", lines)
        self.assertIn("#SBATCH --comment='two words; $(no)'", lines)
        self.assertIn("#SBATCH -H", lines)
        self.assertFalse((self.folder / "My 100% Drive").exists(), "a dry run has left something")

    def test_what_would_be_more_than_a_word_is_refused(self):
        for told, change in (
            ("--name: expected the name of a folder", {"name": "x\ntouch /tmp/p #"}),
            ("--name: expected the name of a folder", {"name": "é" * 65}),
            ("--out: expected a folder without control characters", {"folder": "x\n#SBATCH --wrap=y"}),
            ("leave it out of the URL", {"storage": "postgresql://me:pw@host/base"}),
            ("leave it out of the URL", {"storage": "postgresql://me@host/base?password=pw"}),
        ):
            with self.subTest(change), self.assertRaisesRegex(UserError, told):
                self.submit(**change)
        for option in ("--comment=x\ntouch /tmp/p", "touch"):
            with self.subTest(option), self.assertRaisesRegex(UserError, "--sbatch: expected one option of sbatch"):
                self.submit(f"--sbatch={option}")
        with self.assertRaisesRegex(UserError, "s.yaml:5: name: expected the name of a folder"):
            self.read(HEAD + 'name: "x\\ntouch #"\nparameters: {x: {min: 0.0, max: 1.0}}\n')

    def test_others_do_not_read_its_overrides(self):
        absent = unittest.mock.patch("shutil.which", lambda name: "/bin/true" if name == "true" else None)
        with absent, self.assertRaisesRegex(UserError, "there is no sbatch here"):
            self.submit(dry=())
        self.assertEqual((self.folder / "sweep/array.sbatch").stat().st_mode & 0o777, 0o600)

    def test_no_password_is_kept(self):
        place = unittest.mock.Mock(url=parse("postgresql://me:secret@host/base?sslpassword=secret&sslmode=require"))
        self.assertEqual(Storage.text(place), "postgresql://me@host/base?sslmode=require")


class Best(SweepFileTest):
    def test_a_value_of_several_lines_is_a_comment_and_no_key(self):
        (self.folder / "config.yaml").write_text("name: made\nrun:\n  dir: x\n")
        study = unittest.mock.Mock(folder=self.folder)
        study.name, study.sweep.metric.name = "made", "val/loss\nseed: 1"
        words = ["note=a\nplugin_path: [b]\x85model: c"]
        trial = unittest.mock.Mock(number=3, value=0.5, user_attrs={"run": str(self.folder), "overrides": words})
        text = write_best(study, trial).read_text()
        self.assertEqual([line for line in text.splitlines() if not line.startswith("# ")], ["name: made"])


class Page(SweepFileTest):
    def made(self, count, here, **answer):
        """Returns the words that the program got, and what is said of the page."""
        sweep = self.read(HEAD + "parameters: {x: {min: 0.0, max: 1.0}}\n")
        trials = [optuna.trial.create_trial(state=State.COMPLETE, value=count - number) for number in range(count)]
        for number, trial in enumerate(trials):
            trial.number = number
        for number in here:
            (self.folder / f"trial_{number:04}").mkdir()
            (self.folder / f"trial_{number:04}/config.yaml").touch()
        program = unittest.mock.Mock()
        program.run.return_value = unittest.mock.Mock(**{"returncode": 0, "stderr": ""} | answer)
        said = page_line(unittest.mock.Mock(folder=self.folder, sweep=sweep, trials=lambda: trials), program)
        return [getattr(word, "name", word) for word in program.run.call_args[0]], said

    def test_the_best_trials_of_this_machine_come_first_and_what_it_lacks_is_said(self):
        words, said = self.made(4, here=(0, 3))
        self.assertEqual(words, ["report", "trial_0003", "trial_0000", "--out", "report.html"])
        self.assertRegex(said, r"report\.html  without 2 trials: it has the best 2 of this machine$")
        words, said = self.made(104, here=range(4, 104))
        self.assertEqual((len(words), words[1]), (103, "trial_0103"))
        self.assertIn("without 4 trials: it has the best 100", said)

    def test_a_page_that_the_program_refuses_is_told_and_is_no_failure_of_the_sweep(self):
        self.assertEqual(self.made(1, here=(0,), returncode=2, stderr="ddprun: error: no\n")[1], "  no report.html: no")


class Told(SweepFileTest):
    def test_a_terminal_obeys_nothing_of_a_trial(self):
        sweep = self.read(HEAD + 'parameters: {x: {values: ["\\e[2J", b]}}\n')
        space = sweep.parameters[0].space.distribution()
        trial = optuna.trial.create_trial(
            state=State.FAIL, params={"x": "\x1b[2J"}, distributions={"x": space}, user_attrs={REASON: "\x1b]0;me\x07"}
        )
        study = unittest.mock.Mock(folder=self.folder, sweep=sweep, trials=lambda: [trial])
        study.name = "made"
        with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.redirect_stderr(shown):
            report_study(study, unittest.mock.Mock())
            say("\x1b[2J")
        self.assertNotRegex(shown.getvalue(), "[\x1b\x07]")
        self.assertIn("?[2J", shown.getvalue())


class PowerCuts(SweepFileTest):
    """What counts is on the disk before it counts. The calls of fsync stand in `order` by the names of what they are for."""

    def setUp(self):
        super().setUp()
        self.order = []
        patched = unittest.mock.patch("os.fsync", lambda fd: self.order.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))))
        patched.start()
        self.addCleanup(patched.stop)

    def noted(self, name, result=None):
        return lambda *_, **__: self.order.append(name) or result

    def test_rows_of_a_trial(self):
        run = self.folder / "trial_0000"
        (run / "logs").mkdir(parents=True)
        for name, text in (
            ("config.yaml", "name: made\n"),
            ("metrics.jsonl", '{"split": "val", "step": 1, "loss": 2}\n'),
            ("summary.json", '{"status": "completed"}'),
        ):
            (run / name).write_text(text)
        study = unittest.mock.Mock(report=self.noted("report"), finish=self.noted("finish", True))
        study.sweep.metric = Metric("val/loss")
        active = ActiveTrial(study, unittest.mock.Mock(user_attrs={"run": str(run)}, intermediate_values={}))
        self.assertTrue(active.follow())
        self.assertEqual(active.settle()[0], State.COMPLETE)
        self.assertEqual(self.order, ["metrics.jsonl", "trial_0000", self.folder.name, "report", "finish"])

    def test_a_file_of_the_sweep_is_whole_or_as_it_was(self):
        study = unittest.mock.Mock(folder=self.folder)
        study.name, study.place.text.return_value = "made", "postgresql://host/base"
        commands.write_record(study)
        before = (self.folder / "sweep.json").read_text()
        self.assertEqual(self.order[-1], self.folder.name)
        study.name = "other"
        with unittest.mock.patch("os.fsync", side_effect=OSError(errno.EIO, "cut")), self.assertRaises(OSError):
            commands.write_record(study)
        self.assertEqual([(file.name, file.read_text()) for file in self.folder.iterdir()], [("sweep.json", before)])

    def test_commits_of_the_study_wait_for_the_folder_too(self):
        storage = Storage(f"sqlite:///{self.folder}/study.db", "made")
        for engine in (storage.engine, storage.optuna._backend.engine):
            with engine.connect() as connection:
                self.assertEqual(connection.exec_driver_sql("PRAGMA synchronous").scalar(), 3)
            engine.dispose()


if __name__ == "__main__":
    unittest.main()

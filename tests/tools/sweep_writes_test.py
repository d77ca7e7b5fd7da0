# SPDX-License-Identifier: MIT
"""What tools/sweep writes and says: nothing in it is obeyed by a reader of YAML or a terminal, and a power cut takes none of it back."""

import contextlib
import errno
import io
import os
import unittest
import unittest.mock

import optuna
from optuna.trial import TrialState as State
from sweep_test_case import SweepFileTest  # first: it knows where the tools lie

from sweep import commands
from sweep.report import page_line, report_study, write_best
from sweep.storage import Storage, parse
from sweep.study import REASON, RUN
from sweep.sweep_file import Metric
from sweep.sweeper import say
from sweep.trial import ActiveTrial

HEAD = "experiment: e.yaml\nmethod: random\nmetric: {name: val/loss}\nrun_cap: 9\n"


class Shown(SweepFileTest):
    def trial(self, number, x=0.5, choices=("\x1b[2J", 0.5), **options):
        space = optuna.distributions.CategoricalDistribution(choices)
        attributes = {RUN: str(self.folder / f"trial_{number:04}"), REASON: "\x1b]0;me\x07"}
        trial = optuna.trial.create_trial(params={"x": x}, distributions={"x": space}, user_attrs=attributes, **options)
        trial.number = number
        return trial

    def study(self, trials):
        sweep = self.read(HEAD + 'parameters: {x: {choices: ["\\e[2J", 0.5]}}\n')
        study = unittest.mock.Mock(folder=self.folder, sweep=sweep, trials=lambda: trials)
        study.study.get_trials.return_value = []
        return study

    def test_a_terminal_obeys_nothing_of_a_trial(self):
        study = self.study([self.trial(0, "\x1b[2J", state=State.FAIL)])
        with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.redirect_stderr(shown):
            report_study(study, unittest.mock.Mock())
            say("\x1b[2J")
        self.assertNotRegex(shown.getvalue(), "[\x1b\x07]")
        self.assertIn("?[2J", shown.getvalue())

    def test_a_value_of_several_lines_is_a_comment_of_best_yaml_and_no_key(self):
        (self.folder / "trial_0003").mkdir()
        (self.folder / "trial_0003/config.yaml").write_text("name: made\nrun:\n  dir: x\n")
        study = unittest.mock.Mock(folder=self.folder)
        study.name, study.sweep.metric.name = "made", "val/loss\nseed: 1"
        value = "a\nplugin_path: [b]\x85model: c"
        text = write_best(study, self.trial(3, value, [value], value=0.5)).read_text()
        self.assertEqual([line for line in text.splitlines() if not line.startswith("# ")], ["name: made"])

    def page(self, count, here, **answer):
        """Returns the words that the program got, and what is said of the page."""
        trials = [self.trial(number, value=count - number) for number in reversed(range(count))]
        for number in here:
            (self.folder / f"trial_{number:04}").mkdir()
            (self.folder / f"trial_{number:04}/config.yaml").touch()
        program = unittest.mock.Mock()
        program.run.return_value = unittest.mock.Mock(**{"returncode": 0, "stderr": ""} | answer)
        said = page_line(self.study(trials), trials, program)
        return [getattr(word, "name", word) for word in program.run.call_args[0]], said

    def test_the_best_trials_of_this_machine_come_first_and_what_the_page_lacks_is_said(self):
        words, said = self.page(4, here=(0, 3))
        self.assertEqual(words, ["report", "trial_0003", "trial_0000", "--out", "report.html"])
        self.assertRegex(said, r"report\.html  without 2 trials: it has the best 2 of this machine$")
        words, said = self.page(104, here=range(4, 104), returncode=2, stderr="ddprun: error: no\n")
        self.assertEqual((len(words), words[1], said), (103, "trial_0103", "  no report.html: no"))

    def test_no_password_is_kept(self):
        place = unittest.mock.Mock(url=parse("postgresql://me:secret@host/base?sslpassword=secret&sslmode=require"))
        self.assertEqual(Storage.text(place), "postgresql://me@host/base?sslmode=require")


class PowerCuts(SweepFileTest):
    """What counts is on the disk before it counts. The calls of fsync stand in `order` by the names of what they are for."""

    def setUp(self):
        super().setUp()
        self.order = []
        patched = unittest.mock.patch("os.fsync", lambda fd: self.order.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))))
        patched.start()
        self.addCleanup(patched.stop)

    def noted(self, name):
        return lambda *_, **__: self.order.append(name)

    def test_rows_of_a_trial(self):
        run = self.folder / "trial_0000"
        (run / "logs").mkdir(parents=True)
        for name, text in (
            ("config.yaml", "name: made\n"),
            ("metrics.jsonl", '{"split": "val", "step": 1, "loss": 2}\n'),
            ("summary.json", '{"status": "completed"}'),
        ):
            (run / name).write_text(text)
        study = unittest.mock.Mock(report=self.noted("report"), finish=self.noted("finish"))
        study.sweep.metric = Metric("val/loss")
        active = ActiveTrial(study, unittest.mock.Mock(user_attrs={"run": str(run)}, intermediate_values={}), None)
        self.assertTrue(active.follow())
        self.assertEqual(active.settle(), "done: val/loss 2")
        self.assertEqual(self.order, ["metrics.jsonl", "trial_0000", self.folder.name, "report", "finish"])

    def test_a_file_of_the_sweep_is_whole_or_as_it_was(self):
        study = unittest.mock.Mock(folder=self.folder)
        study.name, study.place.text.return_value, study.sweep.file.read_bytes.return_value = "made", "postgresql://host/base", b"x"
        commands.write_record(study)
        before = (self.folder / "sweep.json").read_text()
        self.assertEqual(self.order[-1], self.folder.name)
        study.name = "other"
        with unittest.mock.patch("os.fsync", side_effect=OSError(errno.EIO, "cut")), self.assertRaises(OSError):
            commands.write_record(study)
        files = {file.name: file.read_text() for file in self.folder.iterdir()}
        self.assertEqual(files, {"sweep.json": before, "sweep.yaml": "x"})


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""What the tests of tools/sweep share: reading a sweep file, starting a sweep, and reading the study that it leaves."""

import os
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TOOL = HERE.parents[1] / "tools/sweep"
MADE = HERE / "made_ddprun.py"
sys.path[:0] = [str(HERE.parent / "end_to_end"), str(TOOL.parent / "lib"), str(HERE.parents[1] / "sdk/python")]

import optuna  # noqa: E402
from command import DDPRUN, CommandTest  # noqa: E402
from optuna.trial import TrialState as State  # noqa: E402, F401

from sweep.study import standing, trial_name  # noqa: E402
from sweep.sweep_file import read_sweep  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)


class SweepFileTest(unittest.TestCase):
    """Reads sweep files in a folder of its own, and starts nothing."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-sweep-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)

    def read(self, text):
        file = self.folder / "s.yaml"
        file.write_text(text)
        return read_sweep(file)


class SweepTest(CommandTest):
    program = DDPRUN

    def setUp(self):
        super().setUp()
        self.take_place("sweep")

    def take_place(self, name):
        """The next sweep and its trials are new ones."""
        self.out, self.gate, self.log = (self.folder / f"{name}{kind}" for kind in ("", ".gate", ".begun"))
        self.url = f"sqlite:///{self.out}/study.db"

    def write(self, text, name="sweep.yaml"):
        (self.folder / name).write_text(text)
        return name

    def sweep(self, file, *words, env=None):
        """Started."""
        # made_ddprun.py is found by its shebang: the Python that runs us
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        command = [sys.executable, "-B", TOOL, file, "--ddprun", self.program, "--out", self.out, *words]
        return self.start_program(*command, env={"PATH": path, "MADE_LOG": str(self.log), "DDPRUN": str(DDPRUN)} | (env or {}))

    def swept(self, file, *words, code=0, env=None):
        """To the end."""
        running = self.sweep(file, *words, env=env)
        self.assertEqual(running.wait(), code, running.text())
        return running

    def report(self, *words, code=0):
        running = self.start_program(sys.executable, "-B", TOOL, "report", *words, "--ddprun", self.program)
        self.assertEqual(running.wait(), code, running.text())
        return running.out()

    def trials(self):
        """Those that count, in the order of their folders' names."""
        place = optuna.storages.RDBStorage(self.url)
        trials = optuna.load_study(study_name="sweep", storage=place).get_trials(deepcopy=False)
        place.engine.dispose()
        return sorted(standing(trials), key=trial_name)

    def states(self):
        return [trial.state for trial in self.trials()]

    def begun(self):
        """[(trial, pid)] of made_ddprun.py, in the order in which they began."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [(line.split()[1], int(line.split()[2])) for line in lines]

    def kill(self, running):
        os.kill(running.pid, signal.SIGKILL)
        running.wait()

    def assert_distinct(self, trials):
        keys = [tuple(sorted(trial.params.items())) for trial in trials]
        self.assertEqual(len(set(keys)), len(keys))

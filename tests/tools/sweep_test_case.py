# SPDX-License-Identifier: MIT
"""What the tests of tools/sweep share: starting it, and reading the study that it leaves."""

import os
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOOL = HERE.parents[1] / "tools/sweep"
MADE = HERE / "made_ddprun.py"
sys.path[:0] = [str(HERE.parent / "end_to_end"), str(TOOL.parent / "lib"), str(HERE.parents[1] / "sdk/python")]

import optuna  # noqa: E402
from command import DDPRUN, CommandTest  # noqa: E402
from optuna.trial import TrialState as State  # noqa: E402, F401

optuna.logging.set_verbosity(optuna.logging.ERROR)


class SweepTest(CommandTest):
    program = DDPRUN

    def setUp(self):
        super().setUp()
        self.gate, self.log = self.folder / "gate", self.folder / "begun"
        self.out = self.folder / "sweep"

    def write(self, text, name="sweep.yaml"):
        (self.folder / name).write_text(text)
        return name

    def sweep(self, file, *words, env=None):
        """Started."""
        # made_ddprun.py is found by its shebang: the Python that runs us
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        command = [sys.executable, "-B", TOOL, file, "--ddprun", self.program, "--out", self.out, *words]
        return self.start_program(*command, env={"PATH": path, "MADE_LOG": str(self.log)} | (env or {}))

    def swept(self, file, *words, code=0, env=None):
        """To the end."""
        running = self.sweep(file, *words, env=env)
        self.assertEqual(running.wait(), code, running.text())
        return running

    def report(self, *words):
        running = self.start_program(sys.executable, "-B", TOOL, "report", *words, "--ddprun", self.program)
        self.assertEqual(running.wait(), 0, running.text())
        return running.out()

    def trials(self, storage=None, name="sweep"):
        place = optuna.storages.RDBStorage(storage or f"sqlite:///{self.out}/study.db")
        trials = optuna.load_study(study_name=name, storage=place).get_trials(deepcopy=False)
        place.engine.dispose()
        return trials

    def states(self, **where):
        return [trial.state for trial in self.trials(**where)]

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

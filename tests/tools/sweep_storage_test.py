# SPDX-License-Identifier: MIT
"""Several tools/sweep share a PostgreSQL: no trial twice, none lost, whoever is killed, the server too."""

import os
import shutil
import signal

import postgres_server
from sweep_test_case import MADE, State, SweepTest  # first: it knows where the tools lie

from command import main

SPACE = """\
experiment: made.yaml
method: bayes
metric: {name: val/score, goal: maximize}
parameters:
  x: {min: 0.0, max: 1.0}
  y: {min: 1, max: 50}
run_cap: 12
"""
NAME = "sweep"


class Shared(SweepTest):
    program = MADE

    @classmethod
    def setUpClass(cls):
        cls.server = postgres_server.PostgresServer()
        cls.addClassCleanup(cls.server.remove)
        cls.server.start()

    def setUp(self):
        super().setUp()
        self.wait_until(self.server.is_ready, "the server")
        self.database = f"sweep_{self.mark}"
        self.psql(f"CREATE DATABASE {self.database}")
        self.url = self.server.url(self.database)
        self.words = [self.write(SPACE), "--storage", self.url, "--jobs", "2"]

    def psql(self, text):
        program = postgres_server.programs() / "psql"
        done = self.start_program(
            program, "-q", "-h", self.server.folder, "-U", postgres_server.USER, "postgres", "-c", text
        )
        self.assertEqual(done.wait(), 0, done.text())

    def trials(self):
        return super().trials(storage=self.url.replace("postgresql:", "postgresql+psycopg:"))

    def begin(self, *words):
        return self.sweep(*self.words, *words, env={"MADE_GATE": str(self.gate)})

    def assert_all(self, count, again=()):
        trials = self.trials()
        self.assertEqual([one.state for one in trials], [State.COMPLETE] * count)
        self.assertEqual([one.number for one in trials], list(range(count)))
        self.assert_distinct(trials)
        names = [f"trial_{i:04}" for i in range(count)]
        self.assertEqual(sorted(name for name, _ in self.begun()), sorted([*names, *again]))
        self.assert_nothing_left()

    def test_three_processes_of_which_one_is_killed(self):
        sweeps = [self.begin() for _ in range(3)]
        self.wait_until(lambda: len(self.begun()) == 6, "six trials", sweeps[0])
        self.kill(sweeps[0])
        owners = {one.user_attrs["process"] for one in self.trials()}
        self.assertEqual(len(owners), 3)
        killed = sweeps[0].err().split("trial_")[1][:4]  # one of its trials dies as well
        pid = dict(self.begun())[f"trial_{killed}"]
        os.kill(pid, signal.SIGKILL)
        self.gate.touch()
        for one in sweeps[1:]:
            self.assertEqual(one.wait(), 0, one.text())
        self.assert_all(12, again=[f"trial_{killed}"])
        for one in sweeps[1:]:
            self.assertIn("12 trials: 12 done", one.out())

    def test_a_silent_process_of_another_machine_is_dead_after_a_while(self):
        """Its lock is not seen from here, as if its folder were another machine's."""
        first = self.begin()
        self.wait_until(lambda: len(self.begun()) == 2, "two trials", first)
        self.kill(first)
        for _, pid in self.begun():
            os.kill(pid, signal.SIGKILL)
        self.wait_until(lambda: not self.processes(), "the end of the trials")
        shutil.rmtree(self.out)
        self.gate.touch()
        second = self.begin("--grace", "1")
        self.assertEqual(second.wait(), 0, second.text())
        self.assert_all(12, again=["trial_0000", "trial_0001"])

    def test_the_server_goes_away_and_comes_back(self):
        running = self.begin()
        self.wait_until(lambda: len(self.begun()) == 2, "two trials", running)
        self.server.stop()
        self.wait_until(lambda: "the trials continue, and it is asked again" in running.err(), "the complaint", running)
        self.gate.touch()
        self.server.start()
        self.assertEqual(running.wait(), 0, running.text())
        self.assertIn("the storage answers again", running.err())
        self.assert_all(12)


if __name__ == "__main__":
    main(postgres_server.refusal())

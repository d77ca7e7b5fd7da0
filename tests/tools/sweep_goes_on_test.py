# SPDX-License-Identifier: MIT
"""tools/sweep killed and stopped, and trials that fail: with a program that is like ddprun, but trains nothing."""

import os
import signal
import sqlite3
import unittest

from sweep_test_case import MADE, State, SweepTest

GRID = """\
experiment: made.yaml
method: grid
metric: {name: val/score, goal: maximize}
parameters:
  x: {values: [1, 2, 3]}
  y: {values: [0.25, 0.5]}
"""


class MadeTest(SweepTest):
    program = MADE

    def wait_for_begun(self, count, running):
        self.wait_until(lambda: len(self.begun()) >= count, f"{count} trials", running)


class Ends(MadeTest):
    def test_a_grid_is_all_combinations_once(self):
        done = self.swept(self.write(GRID), "--jobs", "3")
        trials = self.trials()
        self.assertEqual({(one.params["x"], one.params["y"]): one.value for one in trials},
                         {(x, y): x + y for x in (1, 2, 3) for y in (0.25, 0.5)})  # fmt: skip
        self.assertEqual([one.user_attrs["run"] for one in trials], [f"{self.out}/trial_000{i}" for i in range(6)])
        self.assertEqual(len(self.begun()), 6)
        self.assertIn("best: trial_0005, val/score 3.5", done.out())
        self.assertEqual(self.swept(self.write(GRID)).out(), done.out())
        self.assertEqual(len(self.begun()), 6, "a sweep that was done was begun again")

    def test_a_larger_run_cap_goes_on(self):
        self.swept(self.write(GRID + "run_cap: 2\n"))
        self.assertEqual(len(self.trials()), 2)
        self.swept(self.write(GRID + "run_cap: 5\n"))
        self.assertEqual(len(self.begun()), 5)

    def test_it_ends_when_the_target_is_reached(self):
        self.swept(self.write(GRID.replace("maximize", "maximize, target: 2.25")))
        self.assertEqual([one.value for one in self.trials()], [1.25, 1.5, 2.25])

    def test_failed_trials_are_kept_and_shown_with_the_reason(self):
        file = self.write(
            GRID.replace("{values: [0.25, 0.5]}", "{value: 0}") + "  mode: {values: [fail, nan, plain]}\n"
        )
        done = self.swept(file)
        self.assertEqual([one.state for one in self.trials()], [State.FAIL, State.FAIL, State.COMPLETE] * 3)
        self.assertIn("trial_0000 failed: rank 0 failed first: out of luck", done.out())
        self.assertIn("trial_0001 failed: val/score was never finite", done.out())
        self.assertIn("9 trials: 3 done, 6 failed", done.out())
        self.swept(file)
        self.assertEqual(len(self.begun()), 6, "failed trials were begun again")  # those that fail say nothing

    def test_failed_trials_are_tried_again_once_for_each_time_that_it_is_asked(self):
        grid = GRID.replace("{values: [0.25, 0.5]}", "{value: 0}") + "  mode: {value: until}\nrun_cap: 2\n"
        file = self.write(grid)
        done = self.swept(file, code=1)
        self.assertIn("2 trials: 2 failed\n  --retry-failed with the same command tries the failed trials again\n", done.out())
        (self.folder / "until").touch()  # what they lacked
        again = self.swept(file, "--retry-failed")
        self.assertIn("sweep: 2 failed trials are tried again\n", again.err())
        self.assertEqual([(one.state, one.params["x"]) for one in self.trials()],
                         [(State.FAIL, 1), (State.FAIL, 2), (State.COMPLETE, 1), (State.COMPLETE, 2)])  # fmt: skip
        self.assertIn("trial_0001 failed, tried again as trial_0003: rank 0 failed first: ", again.out())
        self.assertIn("4 trials: 2 done, 2 failed, 2 of them tried again\n", again.out())
        self.assertNotIn("--retry-failed", again.out())
        third = self.swept(self.write(grid.replace("run_cap: 2", "run_cap: 3")), "--retry-failed")
        self.assertIn("sweep: no failed trials are tried again\n", third.err())
        self.assertEqual([one.params["x"] for one in self.trials()], [1, 2, 1, 2, 3])

    def test_the_reason_is_shown_whole(self):
        file = self.write(GRID.replace("{values: [0.25, 0.5]}", "{value: 0}") + "  mode: {value: long}\nrun_cap: 1\n")
        out = self.swept(file, code=1).out()
        self.assertTrue(all(len(line) <= 80 for line in out.splitlines()), out)
        self.assertIn("trial_0000 failed: rank 0 failed first: " + "a long story " * 30 + "with an end", " ".join(out.split()))

    def test_a_sweep_in_which_all_fails_is_no_success(self):
        self.swept(self.write(GRID + "  mode: {value: fail}\n"), code=1)

    def test_a_trial_that_is_no_good_is_stopped(self):
        words = ["  x: {values: [1, 2, 3]}", "  x: {values: [9, 8, 1]}", "  y: {values: [0.25, 0.5]}"]
        text = GRID.replace(words[0], words[1]).replace(words[2], "  mode: {values: [plain, slow]}")
        file = self.write(text + "early_terminate: {type: median, min_trials: 1}\n")
        gate = {"MADE_GATE": str(self.gate)}
        running = self.sweep(file, env=gate)
        self.wait_for_begun(1, running)
        self.gate.touch()
        self.wait_until(lambda: State.RUNNING in self.states() and len(self.trials()) == 2, "the slow one", running)
        # x=9 slow is as good as the best: nothing ends it but us
        self.wait_for_begun(2, running)
        os.kill(self.begun()[1][1], signal.SIGKILL)
        self.assertEqual(running.wait(), 0, running.text())
        trials = self.trials()
        self.assertEqual(trials[1].state, State.FAIL)
        self.assertEqual(trials[1].user_attrs["reason"], "killed by SIGKILL")
        slow = [one for one in trials if one.params["mode"] == "slow"][1:]
        self.assertEqual([one.state for one in slow], [State.PRUNED, State.PRUNED])
        self.assertEqual([one.user_attrs["pruning"] for one in slow], [1, 1])
        self.assertEqual([one.value for one in slow], [8, 1])

    def test_gpus_are_dealt_out(self):
        closed = {"MADE_GATE": str(self.gate)}
        running = self.sweep(self.write(GRID), "--gpus", "4,7", env=closed)
        self.wait_for_begun(2, running)
        self.assertEqual(sorted(self.log.read_text().split()[3::4]), ["4", "7"])
        self.kill(running)
        for _, pid in self.begun():
            os.kill(pid, signal.SIGKILL)
        self.gate.touch()
        self.swept("sweep.yaml", "--gpus", "4,7", env=closed)
        lines = [line.split() for line in self.log.read_text().splitlines()]
        again = {(name, gpu) for _, name, _, gpu in lines if name in ("trial_0000", "trial_0001")}
        self.assertEqual(len(again), 2, "a trial went on with another GPU")

    def test_a_metric_that_is_not_measured_ends_the_sweep(self):
        told = self.swept(self.write(GRID + "  mode: {value: dumb}\n"), code=2).err()
        self.assertIn("metric.name: trial_0000 has ended, but it measured no val/score; known: val/sorce", told)
        self.assertEqual(len(self.begun()), 1)


class GoesOn(MadeTest):
    def setUp(self):
        super().setUp()
        self.file = self.write(GRID)
        self.words = [self.file, "--jobs", "2"]
        self.closed = {"MADE_GATE": str(self.gate)}

    def assert_done(self, begun):
        trials = self.trials()
        self.assertEqual([one.state for one in trials], [State.COMPLETE] * 6)
        self.assertEqual([one.intermediate_values for one in trials],
                         [dict.fromkeys((1, 2, 3), one.value) for one in trials])  # fmt: skip
        self.assert_distinct(trials)
        self.assertEqual(sorted(name for name, _ in self.begun()), sorted(begun))
        self.assert_nothing_left()

    def test_killed_with_its_trials_under_way_which_go_on(self):
        running = self.sweep(*self.words, env=self.closed)
        self.wait_for_begun(2, running)
        self.kill(running)
        again = self.sweep(*self.words, env=self.closed)
        self.wait_until(
            lambda: again.err().count("under way since an earlier call: followed") == 2, "the trials", again
        )
        self.gate.touch()
        self.assertEqual(again.wait(), 0, again.text())
        self.assert_done([f"trial_000{i}" for i in range(6)])

    def kill_with_two_trials(self):
        running = self.sweep(*self.words, env=self.closed)
        self.wait_for_begun(2, running)
        self.kill(running)
        for _, pid in self.begun():
            os.kill(pid, signal.SIGKILL)
        self.wait_until(lambda: not self.processes(), "the end of the trials")

    def test_killed_with_its_trials_which_are_resumed(self):
        self.kill_with_two_trials()
        again = self.swept(*self.words)
        self.assertIn("trial_0000  continues: x=1 y=0.25", again.err())
        self.assert_done([f"trial_000{i}" for i in (0, 0, 1, 1, 2, 3, 4, 5)])

    def test_trials_that_ended_while_nobody_looked_are_not_run_again(self):
        running = self.sweep(*self.words, env=self.closed)
        self.wait_for_begun(2, running)
        self.kill(running)
        self.gate.touch()
        self.wait_until(lambda: not self.processes(), "the end of the trials")
        self.swept(*self.words)
        self.assert_done([f"trial_000{i}" for i in range(6)])

    def test_ctrl_c_lets_the_trials_save_and_the_next_call_goes_on(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            running = self.sweep(*self.words, env=self.closed)
            self.wait_until(
                lambda: len({name for name, _ in self.begun()}) == 2 and len(self.processes()) == 3, "trials", running
            )
            begun = len(self.begun())
            running.send(number)
            self.assertEqual(running.wait(), 75, running.text())
            self.assert_nothing_left()
            self.wait_until(lambda begun=begun: len(self.begun()) >= begun, "the log")
        self.gate.touch()
        self.swept(*self.words, env=self.closed)
        self.assertEqual({name for name, _ in self.begun()}, {f"trial_000{i}" for i in range(6)})
        self.assertEqual(self.states(), [State.COMPLETE] * 6)

    def test_a_start_that_was_killed_in_its_first_moment_is_begun_again(self):
        self.kill_with_two_trials()
        (self.out / "trial_0001/config.yaml").unlink()
        self.swept(*self.words)
        self.assert_done([f"trial_000{i}" for i in (0, 0, 1, 1, 2, 3, 4, 5)])

    def test_a_changed_sweep_is_another_one(self):
        self.swept(*self.words, env={})
        told = self.swept(self.write(GRID.replace("0.5]", "0.75]")), code=2).err()
        self.assertIn(
            "was begun with other parameters, and its trials could not be compared: begin another with --name", told
        )
        told = self.swept(self.write(GRID), "y=1", code=2).err()
        self.assertIn("was begun with other overrides (none), and", told)

    def test_two_calls_at_once_share_the_trials(self):
        calls = [self.sweep(*self.words, env=self.closed) for _ in range(2)]
        self.wait_for_begun(4, calls[0])
        self.gate.touch()
        for call in calls:
            self.assertEqual(call.wait(), 0, call.text())
        self.assert_done([f"trial_000{i}" for i in range(6)])


class BadInput(MadeTest):
    def test_a_storage_that_is_locked_or_of_another_version(self):
        self.swept(self.write(GRID))
        file = self.out / "study.db"
        with sqlite3.connect(file, isolation_level=None) as other:
            other.execute("BEGIN EXCLUSIVE")
            told = self.swept("sweep.yaml", "--storage", f"sqlite:///{file}?timeout=0.1", code=2).err()
            self.assertIn("is locked by another program; end it, or wait for it: the same command continues", told)
            other.execute("ROLLBACK")
            other.execute("UPDATE alembic_version SET version_num = 'v99.0.0.a'")
            other.execute("UPDATE version_info SET schema_version = 99")
        told = self.swept("sweep.yaml", code=2).err()
        self.assertIn("was made by another version of Optuna", told)

    def test_a_storage_that_is_gone(self):
        words = [self.write(GRID), "--storage", "postgresql://a:secret@127.0.0.1:1/b"]
        told = self.swept(*words, code=2).err()
        self.assertIn("the storage postgresql://a@127.0.0.1:1/b does not answer: ", told)
        self.assertNotIn("secret", told)
        self.assertEqual(len(told.splitlines()), 1, told)

    def test_a_storage_that_is_removed_in_the_middle_ends_the_sweep(self):
        running = self.sweep(self.write(GRID), env={"MADE_GATE": str(self.gate)})
        self.wait_for_begun(1, running)
        (self.out / "study.db").unlink()
        self.gate.touch()
        self.assertEqual(running.wait(), 2, running.text())
        complaint = running.err().splitlines()[-1]
        self.assertIn("study.db was removed: put the file back, or move the sweep's folder away", complaint)
        self.assertNotIn("Traceback", running.err())
        self.assertEqual(len(self.begun()), 1)

    def test_a_study_that_was_removed_does_not_go_on_with_runs_of_another(self):
        self.swept(self.write(GRID + "run_cap: 1\n"))
        (self.out / "study.db").unlink()
        told = self.swept("sweep.yaml", code=2).err()
        self.assertIn("trial_0000 is there, but the study sweep in sqlite:///", told)

    def test_what_the_experiment_does_not_have_leaves_no_folder(self):
        told = self.swept(self.write(GRID.replace("  x:", "  xx:")), code=2).err()
        self.assertIn("sweep.yaml:5: with xx=1: xx: unknown key; did you mean x?", told)
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""tools/sweep killed and stopped, several at once, and trials that fail: with a program that is like ddprun, but trains nothing."""

import os
import shutil
import signal
import sqlite3
import unittest

from sweep_test_case import MADE, State, SweepTest

GRID = """\
experiment: made.yaml
method: grid
metric: {name: val/score, goal: maximize}
parameters:
  x: {choices: [1, 2, 3]}
  y: {choices: [0.25, 0.5]}
"""
SPACE = """\
experiment: made.yaml
method: tpe
seed: 4
metric: {name: val/score, goal: maximize}
parameters:
  x: {low: 0.0, high: 1.0}
  y: {low: 1, high: 50}
run_cap: 12
"""
# The first trial of this seed is x=9, plain.
RACE = """\
experiment: made.yaml
method: grid
seed: 1
metric: {name: val/score, goal: maximize}
parameters:
  x: {choices: [9, 1]}
  mode: {choices: [plain, slow]}
pruner: {type: median, n_startup_trials: 1}
"""


def names(*numbers):
    return [f"trial_{number:04}" for number in numbers]


class MadeTest(SweepTest):
    program = MADE

    @property
    def closed(self):
        return {"MADE_GATE": str(self.gate)}

    def sweep_until_begun(self, count, *words, **options):
        """Started with a closed gate, with so many trials under way."""
        running = self.sweep(*words, env=self.closed, **options)
        self.wait_until(lambda: len(self.begun()) >= count, f"{count} trials", running)
        return running

    def kill_trials(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self.wait_until(lambda: not self.processes(), "the end of the trials")

    def assert_all(self, begun):
        """Each trial is there once and has all of its values; `begun` names one as often as it was started."""
        trials = self.trials()
        self.assertEqual([(one.state, one.intermediate_values) for one in trials],
                         [(State.COMPLETE, dict.fromkeys((1, 2, 3), one.value)) for one in trials])  # fmt: skip
        self.assert_distinct(trials)
        self.assertEqual(sorted(name for name, _ in self.begun()), sorted(begun))
        self.assert_nothing_left()
        return trials


class Ends(MadeTest):
    def test_a_grid_is_all_combinations_once(self):
        done = self.swept(self.write(GRID), "--jobs", "3")
        trials = self.assert_all(names(*range(6)))
        self.assertEqual({(one.params["x"], one.params["y"]): one.value for one in trials},
                         {(x, y): x + y for x in (1, 2, 3) for y in (0.25, 0.5)})  # fmt: skip
        self.assertEqual([one.user_attrs["run"] for one in trials], [f"{self.out}/trial_000{i}" for i in range(6)])
        self.assertRegex(done.out(), r"best: trial_000\d, val/score 3\.5")
        self.assertEqual(self.swept(self.write(GRID)).out(), done.out())
        self.assertEqual(len(self.begun()), 6, "a sweep that was done was begun again")

    def test_a_larger_run_cap_continues_it(self):
        self.swept(self.write(GRID + "run_cap: 2\n"))
        self.assertEqual(len(self.trials()), 2)
        self.swept(self.write(GRID + "run_cap: 5\n"))
        self.assertEqual(len(self.begun()), 5)

    def test_it_ends_when_the_target_is_reached(self):
        self.swept(self.write(GRID.replace("maximize", "maximize, target: 2.25") + "seed: 1\n"))
        values = [one.value for one in self.trials()]
        self.assertLess(len(values), 6)
        self.assertEqual([value >= 2.25 for value in values], [False] * (len(values) - 1) + [True])

    def test_failed_trials_are_kept_and_shown_with_the_reason(self):
        file = self.write(GRID.replace("[0.25, 0.5]", "[0]") + "  mode: {choices: [fail, nan, plain]}\n")
        done = self.swept(file)
        for trial, name in zip(self.trials(), names(*range(9))):
            mode = trial.params["mode"]
            self.assertEqual(trial.state, State.COMPLETE if mode == "plain" else State.FAIL)
            reason = {"fail": "rank 0 failed first: out of luck", "nan": "val/score was never finite"}.get(mode)
            self.assertEqual(f"{name} failed: {reason}" in done.out(), mode != "plain")
        self.assertIn("9 trials: 3 done, 6 failed", done.out())
        self.swept(file)
        self.assertEqual(len(self.begun()), 6, "failed trials were begun again")  # those that fail say nothing

    def test_failed_trials_are_tried_again_once_for_each_time_that_it_is_asked(self):
        grid = GRID.replace("[0.25, 0.5]", "[0]") + "  mode: {value: until}\nrun_cap: 2\n"
        file = self.write(grid)
        done = self.swept(file, code=1)
        first = {one.params["x"] for one in self.trials()}
        self.assertIn("2 trials: 2 failed\n  --retry-failed with the same command tries the failed trials again\n", done.out())
        (self.folder / "until").touch()  # what they lacked
        again = self.swept(file, "--retry-failed")
        self.assertIn("sweep: 2 failed trials are tried again\n", again.err())
        self.assertEqual(self.states(), [State.COMPLETE] * 2)
        self.assertEqual({one.params["x"] for one in self.trials()}, first)
        self.assertEqual([name for name, _ in self.begun()], names(2, 3))
        self.assertIn("trial_0001 failed, tried again as trial_0003: rank 0 failed first: ", again.out())
        self.assertIn("4 trials: 2 done, 2 failed, 2 of them tried again\n", again.out())
        self.assertNotIn("--retry-failed", again.out())
        third = self.swept(self.write(grid.replace("run_cap: 2", "run_cap: 3")), "--retry-failed")
        self.assertIn("sweep: no failed trials are tried again\n", third.err())
        self.assertEqual({one.params["x"] for one in self.trials()}, {1, 2, 3})

    def test_the_reason_is_shown_whole(self):
        file = self.write(GRID.replace("[0.25, 0.5]", "[0]") + "  mode: {value: long}\nrun_cap: 1\n")
        out = self.swept(file, code=1).out()
        self.assertTrue(all(len(line) <= 80 for line in out.splitlines()), out)
        self.assertIn("trial_0000 failed: rank 0 failed first: " + "a long story " * 30 + "with an end", " ".join(out.split()))

    def test_a_trial_that_is_no_good_is_stopped(self):
        running = self.sweep_until_begun(1, self.write(RACE))
        self.gate.touch()
        good = {"x": 9, "mode": "slow"}  # as good as the best: nothing ends it but us
        self.wait_until(lambda: any((one.params, one.intermediate_values) == (good, {1: 9.0}) for one in self.trials()), "x=9", running)
        name = next(one.user_attrs["run"] for one in self.trials() if one.params == good).rpartition("/")[2]
        os.kill(dict(self.begun())[name], signal.SIGKILL)
        self.assertEqual(running.wait(), 0, running.text())
        ends = {(one.params["x"], one.params["mode"]): one for one in self.trials()}
        self.assertEqual({key: one.state for key, one in ends.items()},
                         {(9, "plain"): State.COMPLETE, (1, "plain"): State.COMPLETE, (9, "slow"): State.FAIL, (1, "slow"): State.PRUNED})
        self.assertEqual(ends[9, "slow"].user_attrs["reason"], "killed by SIGKILL")
        self.assertEqual((ends[1, "slow"].user_attrs["pruning"], ends[1, "slow"].value), (1, 1))

    def test_gpus_are_dealt_out(self):
        running = self.sweep_until_begun(2, self.write(GRID), "--gpus", "4,7")
        self.assertEqual(sorted(self.log.read_text().split()[3::4]), ["4", "7"])
        self.kill(running)
        self.kill_trials()
        self.gate.touch()
        self.swept("sweep.yaml", "--gpus", "4,7", env=self.closed)
        lines = [line.split() for line in self.log.read_text().splitlines()]
        again = {(name, gpu) for _, name, _, gpu in lines if name in names(0, 1)}
        self.assertEqual(len(again), 2, "a trial continued with another GPU")

    def test_a_metric_that_is_not_measured_ends_the_sweep(self):
        reported = self.swept(self.write(GRID + "  mode: {value: dumb}\n"), code=2).err()
        self.assertIn("metric.name: trial_0000 has ended, but it measured no val/score; known: val/sorce", reported)
        self.assertEqual(len(self.begun()), 1)


class Continues(MadeTest):
    def setUp(self):
        super().setUp()
        self.words = [self.write(GRID), "--jobs", "2"]

    def killed(self, meanwhile):
        """Two trials are under way, or what else has come of them since."""
        self.kill(self.sweep_until_begun(2, *self.words))
        if meanwhile == "ended":
            self.gate.touch()
            self.wait_until(lambda: not self.processes(), "the end of the trials")
        elif meanwhile != "under way":
            self.kill_trials()
        if meanwhile == "killed in a first moment":
            (self.out / "trial_0001/config.yaml").unlink()

    def test_a_killed_sweep_continues_its_trials(self):
        for meanwhile, begun in (("under way", names(*range(6))), ("killed", names(0, 0, 1, 1, 2, 3, 4, 5)), ("ended", names(*range(6))),
                                 ("killed in a first moment", names(0, 0, 1, 1, 2, 3, 4, 5))):  # fmt: skip
            with self.subTest(meanwhile):
                self.take_place(meanwhile)
                self.killed(meanwhile)
                again = self.sweep(*self.words, "--name", "sweep", env=self.closed)
                if meanwhile == "under way":
                    self.wait_until(lambda again=again: again.err().count("under way since an earlier call: followed") == 2, "the trials", again)
                self.gate.touch()
                self.assertEqual(again.wait(), 0, again.text())
                if meanwhile == "killed":
                    self.assertRegex(again.err(), r"trial_0000  continues: x=\d y=0\.")
                self.assert_all(begun)

    def test_ctrl_c_lets_the_trials_save_and_the_next_call_continues(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            running = self.sweep(*self.words, env=self.closed)
            self.wait_until(lambda: len({name for name, _ in self.begun()}) == 2 and len(self.processes()) == 3, "trials", running)
            running.send(number)
            self.assertEqual(running.wait(), 75, running.text())
            self.assert_nothing_left()
        self.assertIn("2 trials: 2 interrupted", self.report(self.out, code=1))
        self.gate.touch()
        self.swept(*self.words, env=self.closed)
        self.assertEqual({name for name, _ in self.begun()}, set(names(*range(6))))
        self.assertEqual(self.states(), [State.COMPLETE] * 6)

    def test_ctrl_c_stops_the_trials_of_an_earlier_call_too(self):
        running = self.sweep_until_begun(2, *self.words)
        self.kill(running)
        again = self.sweep(*self.words, env=self.closed)
        self.wait_until(lambda: again.err().count("followed") == 2, "the trials", again)
        again.send(signal.SIGINT)
        self.assertEqual(again.wait(), 75, again.text())
        self.assert_nothing_left()

    def test_an_interrupted_sweep_has_the_trials_of_an_undisturbed_one(self):
        file = self.write(SPACE)
        running = self.sweep_until_begun(1, file)
        self.kill(running)
        self.kill_trials()
        running = self.sweep(file, env=self.closed | {"MADE_LOG": ""})
        self.wait_until(lambda: "continues" in running.err(), "the first trial", running)
        running.send(signal.SIGTERM)
        self.assertEqual(running.wait(), 75, running.text())
        self.swept(file)
        first = [(one.params, one.value) for one in self.trials()]
        self.take_place("other")
        self.swept(file, "--name", "sweep")
        self.assertEqual([(one.params, one.value) for one in self.trials()], first)
        self.assertEqual(len(first), 12)

    def test_a_changed_sweep_is_another_one(self):
        self.swept(*self.words)
        for words, text in (([self.write(GRID.replace("0.5]", "0.75]"), "other.yaml")], "was begun with other parameters, and its trials"),
                            ([self.words[0], "y=1"], "was begun with other overrides (none), and")):  # fmt: skip
            self.assertIn(text, self.swept(*words, "--name", "sweep", code=2).err())


class Shared(MadeTest):
    """Several processes on one storage: no trial twice, none lost, who is killed."""

    def setUp(self):
        super().setUp()
        self.url = f"sqlite:///{self.folder}/shared.db"
        self.words = [self.write(SPACE), "--storage", self.url, "--jobs", "2"]

    def test_three_processes_of_which_one_is_killed(self):
        sweeps = [self.sweep(*self.words, env=self.closed) for _ in range(3)]
        self.wait_until(lambda: len(self.begun()) == 6, "six trials", sweeps[0])
        self.kill(sweeps[0])
        self.assertEqual(len({one.user_attrs["process"]["lock"] for one in self.trials()}), 3)
        killed = f"trial_{sweeps[0].err().split('trial_')[1][:4]}"  # one of its trials dies as well
        os.kill(dict(self.begun())[killed], signal.SIGKILL)
        self.gate.touch()
        for one in sweeps[1:]:
            self.assertEqual(one.wait(), 0, one.text())
            self.assertIn("12 trials: 12 done", one.out())
        self.assert_all([*names(*range(12)), killed])

    def test_a_silent_process_of_another_machine_is_dead_after_a_while_and_its_trials_start_over(self):
        """Its folder is not seen from here, as if it were another machine's."""
        first = self.sweep_until_begun(2, *self.words)
        self.kill(first)
        self.kill_trials()
        shutil.rmtree(self.out)
        self.gate.touch()
        self.swept(*self.words, "--grace", "3", env=self.closed)
        self.assert_all(names(0, 0, 1, 1, *range(2, 12)))

    def test_a_storage_that_does_not_answer_for_a_while_is_waited_for(self):
        running = self.sweep_until_begun(2, self.words[0], "--storage", f"{self.url}?timeout=0.1", "--jobs", "2")
        with sqlite3.connect(self.folder / "shared.db", isolation_level=None) as other:
            other.execute("BEGIN EXCLUSIVE")
            self.gate.touch()
            self.wait_until(lambda: "the trials continue, and it is asked again" in running.err(), "the complaint", running)
            other.execute("ROLLBACK")
        self.assertEqual(running.wait(), 0, running.text())
        self.assertIn("the storage answers again", running.err())
        self.assert_all(names(*range(12)))


class BadInput(MadeTest):
    def test_a_storage_that_is_locked_or_of_another_version(self):
        self.swept(self.write(GRID))
        file = self.out / "study.db"
        with sqlite3.connect(file, isolation_level=None) as other:
            other.execute("BEGIN EXCLUSIVE")
            reported = self.swept("sweep.yaml", "--storage", f"sqlite:///{file}?timeout=0.1", code=2).err()
            self.assertIn("is locked by another program; end it, or wait for it: the same command continues", reported)
            other.execute("ROLLBACK")
            other.execute("UPDATE alembic_version SET version_num = 'v99.0.0.a'")
            other.execute("UPDATE version_info SET schema_version = 99")
        reported = self.swept("sweep.yaml", code=2).err()
        self.assertIn("cannot be used: The runtime optuna version 5.0.0 is no longer compatible", reported)

    def test_a_server_that_is_not_there(self):
        words = [self.write(GRID), "--storage", "postgresql://a:secret@127.0.0.1:1/b"]
        reported = self.swept(*words, code=2).err()
        self.assertIn("the storage postgresql://a@127.0.0.1:1/b does not answer: ", reported)
        self.assertNotIn("secret", reported)
        self.assertEqual(len(reported.splitlines()), 1, reported)

    def test_a_storage_that_is_removed_in_the_middle_ends_the_sweep(self):
        running = self.sweep_until_begun(1, self.write(GRID))
        (self.out / "study.db").unlink()
        self.gate.touch()
        self.assertEqual(running.wait(), 2, running.text())
        self.assertIn("study.db was removed: put the file back, or move the sweep's folder away", running.err().splitlines()[-1])
        self.assertNotIn("Traceback", running.err())
        self.assertEqual(len(self.begun()), 1)

    def test_a_study_that_was_removed_does_not_continue_with_runs_of_another(self):
        self.swept(self.write(GRID + "run_cap: 1\n"))
        (self.out / "study.db").unlink()
        reported = self.swept("sweep.yaml", code=2).err()
        self.assertIn("trial_0000 is there, but the study sweep in sqlite:///", reported)


if __name__ == "__main__":
    unittest.main()

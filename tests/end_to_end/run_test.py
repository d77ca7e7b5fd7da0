# SPDX-License-Identifier: MIT
"""A run from start to end: what it prints, what it leaves, what its events and a trace of it say, and that it can be repeated."""

import collections
import json
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from command import DDPRUN, SMALL, CommandTest, all_rows, checkpoint_steps, csv_rows, events, is_whole, summary

QUICK = [*SMALL, "model=mlp", "model.hidden=32"]
NUMBERS = {"steps", "epochs", "samples", "world_size", "nodes", "total_seconds", "train_seconds", "first_step_seconds",
           "samples_per_second", "test_correct", "test_total"}


def kinds(run):
    return [event["kind"] for event in events(run)]


class OneRun(CommandTest):
    """What all tests read."""

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-e2e-shared-")).resolve()
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        cls.run_folder = cls.shared / "run"
        words = [DDPRUN, *QUICK, "launch.workers=2", f"run.dir={cls.run_folder}"]
        cls.running = subprocess.run(words, capture_output=True, text=True, check=True, cwd=cls.shared)

    def test_it_leaves_all_that_the_design_promises(self):
        found = summary(self.run_folder)
        self.assertLessEqual(NUMBERS | {"status", "stop_reason", "metrics", "best", "checkpoint"}, found.keys())
        self.assertEqual((found["status"], found["steps"], found["samples"]), ("completed", 20, 1220))
        self.assertEqual((found["world_size"], found["nodes"], found["test_total"]), (2, 1, 301))
        self.assertTrue(all(isinstance(found[name], (int, float)) for name in NUMBERS))
        self.assertLess(0, found["first_step_seconds"])
        self.assertLess(found["first_step_seconds"], found["total_seconds"])
        self.assertAlmostEqual(found["metrics"]["test/accuracy"], found["test_correct"] / 301)
        self.assertEqual(found["checkpoint"], str(self.run_folder / "checkpoints/step_00000020"))
        for name in ("config.yaml", "overrides.txt", "environment.json", "logs/rank_0.log", "logs/rank_1.log"):
            self.assertTrue((self.run_folder / name).is_file(), name)
        words = (self.run_folder / "overrides.txt").read_text().split()
        self.assertEqual(words, [*QUICK[1:], "launch.workers=2", f"run.dir={self.run_folder}"])
        environment = json.loads((self.run_folder / "environment.json").read_text())
        self.assertIn("libtorch", environment["versions"])

    def test_checkpoints_are_whole_and_linked(self):
        folder = self.run_folder / "checkpoints"
        self.assertEqual(checkpoint_steps(self.run_folder), [10, 20])
        self.assertTrue(all(is_whole(folder / name) for name in ("step_00000010", "last", "best")))
        self.assertEqual((folder / "last").resolve().name, "step_00000020")
        self.assertEqual([path.name for path in folder.iterdir() if path.suffix], [])

    def test_csv_and_json_rows_agree(self):
        rows = all_rows(self.run_folder)
        table = csv_rows(self.run_folder / "metrics.csv")
        self.assertEqual(len(table), len(rows))
        self.assertEqual({row["split"] for row in rows}, {"train", "epoch", "val", "test"})
        for row, cells in zip(rows, table):
            for name, cell in cells.items():
                expected = "" if name not in row else row[name] if name == "split" else float(row[name])
                self.assertEqual(cell if isinstance(expected, str) else float(cell), expected, f"{name} in {row}")
            self.assertLessEqual(row.keys() - cells.keys(), {"attempt"})

    def test_a_file_gets_plain_lines_without_a_bar(self):
        text = self.running.stdout
        self.assertIsNone(re.search(r"[^\n\x20-\x7e]", text), text)
        self.assertIn("Training Summary", text)
        self.assertIn(f"run folder       {self.run_folder}", text)
        self.assertEqual(self.running.stderr, "")

    def test_it_says_first_what_is_trained_where(self):
        lines = self.running.stdout.splitlines()
        self.assertRegex(lines[0], r"^digits: mlp \(.* parameters\) on digits with sgd, 2 workers on cpu over gloo$")
        self.assertEqual(lines[1], "610 train, 150 val, 301 test samples of 1 x 28 x 28, 10 classes")
        found = [json.loads((self.run_folder / name).read_text()) for name in ("run.json", "summary.json")]
        for facts in found:
            self.assertEqual(facts["backend"], "gloo")
            self.assertEqual([place["device"] for place in facts["ranks"]], ["cpu", "cpu"])
        self.assertEqual(found[0]["ranks"], [{name: place[name] for name in ("host", "device")} for place in found[1]["ranks"]])
        host = found[0]["ranks"][1]["host"]
        first = (self.run_folder / "logs/rank_1.log").read_text().splitlines()[0]
        self.assertIn(f"rank 1 of 2, local rank 1 of 2 on {host}, cpu", first)

    def test_every_0_writes_a_line_for_each_row_with_the_step_of_its_epoch(self):
        running = self.ddprun(*QUICK, "loggers.0={plugin: console, every: 0}", "run.dir=lines")
        self.assertRegex(running.out(), r"(?m)^epoch 1/2  step 2 \(2/10\)  loss ")
        self.assertRegex(running.out(), r"(?m)^epoch 2/2  step 12 \(2/10\)  loss ")

    def test_the_frozen_experiment_gives_the_same_bits(self):
        self.ddprun(self.run_folder / "config.yaml", "run.dir=other")
        weights = [(run / "checkpoints/last/model.safetensors").read_bytes() for run in (self.run_folder, self.folder / "other")]
        self.assertEqual(*weights)
        another = self.ddprun(self.run_folder / "config.yaml", "run.dir=third", "seed=7")
        self.assertNotEqual(weights[0], (self.folder / "third/checkpoints/last/model.safetensors").read_bytes(), another.text())


class SeveralRuns(CommandTest):
    def test_runs_started_together_get_folders_of_their_own_and_all_finish(self):
        together = [self.start(*QUICK) for _ in range(3)]
        self.assertEqual([running.wait() for running in together], [0, 0, 0], [running.text() for running in together])
        runs = [path for path in (self.folder / "outputs/digits").iterdir() if not path.is_symlink()]
        self.assertEqual(len(runs), 3)
        self.assertEqual([summary(run)["steps"] for run in runs], [20] * 3)
        self.assertIn((self.folder / "outputs/digits/latest").resolve(), runs)

    def test_one_folder_for_two_runs_started_together_goes_to_one_of_them(self):
        together = [self.start(*QUICK, "run.dir=run") for _ in range(2)]
        self.assertEqual(sorted(running.wait() for running in together), [0, 2], [running.text() for running in together])
        self.assertEqual(len(all_rows(self.folder / "run")), 15)

    def test_early_stopping_is_a_success_that_says_so(self):
        words = [word for word in QUICK if word != "~early_stopping"]
        self.ddprun(*words, "run.dir=run", "trainer.max_epochs=9", "early_stopping={monitor: val/loss, target: 100, hold: 2}")
        found = summary(self.folder / "run")
        self.assertEqual((found["status"], found["steps"]), ("stopped_early", 20))
        self.assertIn("val/loss", found["stop_reason"])

    def test_early_stopping_without_anything_to_evaluate_is_warned_of(self):
        words = [word for word in QUICK if word != "~early_stopping"]
        running = self.ddprun(*words, "dataset.val_size=0", "dataset.test_size=0", "run.dir=run")
        self.assertIn("warning: early_stopping.monitor: val/accuracy is not measured, since the dataset has neither", running.err())
        self.assertNotIn("test_correct", summary(self.folder / "run"))


class Events(CommandTest):
    def test_reports_attempts_checkpoints_and_the_end(self):
        run = self.start_held(12, *SMALL, "model=mlp", "run.dir=run")
        run.send(signal.SIGTERM)
        self.assertEqual(run.wait(), 75)
        folder = self.folder / "run"
        self.assertEqual(kinds(folder)[0], "attempt")
        self.assertEqual(events(folder)[-1]["text"], "preempted: asked to stop; saved and resumable")
        step = summary(folder)["steps"]
        self.ddprun("resume", "run")
        second = [event for event in events(folder) if event["attempt"] == 1]
        self.assertEqual([second[0]["kind"], second[0]["text"]], ["attempt", f"1 worker on 1 node, from step_{step:08d}"])
        self.assertEqual([second[1]["kind"], second[1]["step"]], ["resumed", step])
        self.assertEqual(second[-1]["kind"], "end")
        self.assertIn("checkpoint", [event["kind"] for event in second])

    def test_reports_a_failure_and_the_restart(self):
        self.ddprun(*SMALL, "model=mlp", "run.dir=run", "launch.max_restarts=1", "launch.restart_seconds=0", "launch.workers=2",
                    env={"DDPRUN_FAULT": "kill:computing:12:1"})
        folder = self.folder / "run"
        counted = collections.Counter(kinds(folder))
        self.assertEqual([counted["attempt"], counted["failure"], counted["end"]], [2, 1, 1])
        failure = next(event for event in events(folder) if event["kind"] == "failure")
        self.assertIn("rank 1", failure["text"])


class Profile(CommandTest):
    def test_is_a_trace_of_the_steps_that_were_asked_for(self):
        self.ddprun(*SMALL, "model=mlp", "launch.workers=2", "+profile={steps: 5..7}", "run.dir=run")
        for rank in range(2):
            trace = json.loads((self.folder / f"run/profile/rank_{rank}_steps_5_7.json").read_text())
            phases = collections.Counter(event["name"] for event in trace["traceEvents"]
                                         if event.get("cat") == "user_annotation")
            for phase in ("data", "forward", "backward", "optimizer"):
                self.assertEqual(phases[phase], 3, phase)

    def test_of_a_run_that_ends_before_is_written_as_far_as_it_went(self):
        self.ddprun(*SMALL, "model=mlp", "+profile={steps: 18..40}", "run.dir=run")
        self.assertTrue((self.folder / "run/profile/rank_0_steps_18_20.json").exists())


# Commands that start nothing, and patterns of what they say.
SAID = {
    "version": (["--version"], r"^ddprun \d+\.\d+\.\d+\n$"),
    "help": (["--help"], "ddprun experiments/mnist.yaml", "resume", "check", "plugins", "Exit codes:", "key=value"),
    "check": (["check", *QUICK, "launch.workers=2"],
              "no mistakes found. digits trains mlp on digits with sgd, 2 workers on cpu, global batch 64."),
    "cfg": (["--cfg", "experiments/digits.yaml", "optimizer.lr=0.5"], r"(?m)^  lr: 0.5 +# command line: optimizer.lr=0.5$",
            r"(?m)^  momentum: 0.9 +# .*optimizer/sgd.yaml:\d+:\d+$"),
    "plugins": (["plugins"], *(f"(?m)^{line} " for line in ("dataset +digits", "dataset +mnist", "model +convnet_bn", "optimizer +adamw", "logger +jsonl"))),
    "plugins_check": (["plugins", "check"], r"\n\d\d plugins checked, 0 failed\n$"),
    "plugins_show": (["plugins", "show", "convnet"], r"(?m)^  dropout +float +0.5 +0 .. 1$"),
    "keys": (["keys"], "trainer:", r"  global_batch  \(int 1 .. ", r"  every  \(string, default 1ep\)", "early_stopping:", "run:"),
    "keys_of_a_word": (["keys", "patience"], r"(?s)^schedule:(?!.*trainer:).*\n  patience .*\nearly_stopping:.*\n  patience "),
    "keys_of_an_objective": (["keys", "class_weights"], r"(?s)^objective:.*\n  class_weights .*cross_entropy, nll: "),
    "experiments": (["experiments"], r"^.*experiments/NAME.yaml.*\n(  \w+ +[A-Z].*[^.:\n]\n)+$", "\n  digits "),
}


class Saying(CommandTest):
    """They work from any folder, and start nothing."""

    def check(self, words, *patterns):
        running = self.ddprun(*words)
        for pattern in patterns:
            self.assertRegex(running.out(), pattern)
        self.assertEqual(running.err(), "")
        self.assertFalse((self.folder / "outputs").exists())
        if words[0] in ("plugins", "experiments"):
            lines = [line for line in running.out().splitlines() if "/" not in line]  # a path is one word, however long
            self.assertLessEqual(max(map(len, lines)), 80)
        return running.out()

    def test_each_says_what_it_is_for(self):
        for name, row in SAID.items():
            with self.subTest(name):
                self.check(*row)

    def test_what_cfg_shows_is_an_experiment_itself(self):
        (self.folder / "again.yaml").write_text(self.check(*SAID["cfg"]))
        self.ddprun("check", "again.yaml")

    def test_a_share_that_is_small_is_warned_of(self):
        warned = self.ddprun("check", "--no-data", *QUICK, "launch.workers=32", "trainer.global_batch=100").err()
        self.assertIn("each of the 32 workers gets only 3 of 100 samples", warned)

    def test_quiet_says_nothing_and_verbose_what_is_loaded(self):
        quiet = self.ddprun("--quiet", *QUICK, "run.dir=quiet")
        self.assertEqual((quiet.out(), quiet.err()), ("", ""))
        self.assertRegex(self.ddprun(*QUICK, "run.dir=verbose", "--verbose").err(), r"(?m)^ddprun: debug: loads .*/models/mlp\.so$")

    def test_no_word_at_all_shows_the_help(self):
        self.assertIn("Exit codes:", self.ddprun(code=2).out())


if __name__ == "__main__":
    unittest.main()

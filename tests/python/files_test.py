# SPDX-License-Identifier: MIT
"""The Python package reads the files of runs as they are found: growing, torn, missing, of several attempts, of another version."""

import fcntl
import json
import math
import os
import pathlib
import pickle
import re
import shutil
import socket
import struct
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sdk/python"))

import ddprun  # noqa: E402
from ddprun import Run, UserError  # noqa: E402
from ddprun.config import flat, read_config  # noqa: E402
from ddprun.curves import best_of, goal_of, training_clock  # noqa: E402
from ddprun.rows import read_lines, standing_rows  # noqa: E402
from ddprun.overrides import override_text  # noqa: E402
from ddprun.training import told_run  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


class FolderTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-runs-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        file = self.folder / name
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file


class LineFile(FolderTest):
    def test_a_file_that_is_not_there_is_empty(self):
        self.assertEqual(read_lines(self.folder / "metrics.jsonl", 7), ([], 7))

    def test_a_line_that_is_being_written_waits_for_its_end(self):
        file = self.write("metrics.jsonl", '{"step": 1}\n{"st')
        self.assertEqual(read_lines(file), ([{"step": 1}], 12))
        self.write("metrics.jsonl", '{"step": 1}\n{"step": 2}\n')
        self.assertEqual(read_lines(file, 12), ([{"step": 2}], 24))
        self.assertEqual(read_lines(file, 24), ([], 24))

    def test_what_a_killed_run_left_torn_is_skipped(self):
        for torn in ('{"step": 1, "lo\n', "\n", "[1]\n", "\0\0\0\n", b'{"a": "\xff"}\n'):
            data = torn.encode() if isinstance(torn, str) else torn
            file = self.write("metrics.jsonl", data + b'{"step": 2}\n')
            self.assertEqual(read_lines(file), ([{"step": 2}], len(data) + 12))

    def test_a_line_that_no_memory_should_hold_is_passed_over_and_one_without_end_refused(self):
        file = self.write("metrics.jsonl", b'{"step": 1}\n')
        with unittest.mock.patch.multiple("ddprun.rows", MOST_LINE=100, MOST_SKIPPED=1000):
            for length in (100, 101, 250, 300):
                file = self.write("metrics.jsonl", b'{"step": 1}\n' + b"x" * (length - 1) + b'\n{"step": 2}\n')
                self.assertEqual(read_lines(file), ([{"step": 1}, {"step": 2}], 24 + length))
            os.truncate(file, 1 << 40)  # a hole, which takes no room
            with self.assertRaisesRegex(UserError, "metrics.jsonl: a line of more than"):
                read_lines(file)

    def test_only_what_is_before_the_end_is_read(self):
        file = self.write("metrics.jsonl", '{"step": 1}\n{"step": 2}\n{"step": 3}\n')
        self.assertEqual(read_lines(file, 12, 24), ([{"step": 2}], 24))


def row(attempt, step, split="train", **values):
    return {"attempt": attempt, "split": split, "step": step, **values}


class StandingRows(unittest.TestCase):
    def test_rows_beyond_the_step_where_a_later_attempt_begins_are_void(self):
        rows = [row(0, 2), row(0, 4), row(0, 6), row(0, 6, "val"), row(0, 8), row(1, 6, loss=1), row(1, 10)]
        self.assertEqual(standing_rows(rows), [row(0, 2), row(0, 4), row(0, 6, "val"), row(1, 6, loss=1), row(1, 10)])

    def test_another_split_of_the_step_where_it_begins_stands(self):
        rows = [row(0, 4), row(0, 4, "val"), row(1, 4, "test")]
        self.assertEqual(standing_rows(rows), rows)

    def test_of_equal_steps_the_last_line_counts(self):
        rows = [row(0, 2, loss=1), row(0, 2, loss=2), row(0, 2, "val", loss=3)]
        self.assertEqual(standing_rows(rows), rows[1:])

    def test_three_attempts(self):
        rows = [row(0, 2), row(0, 4), row(1, 4), row(1, 6), row(2, 4), row(2, 6)]
        self.assertEqual(standing_rows(rows), [row(0, 2), row(2, 4), row(2, 6)])


class Config(FolderTest):
    def test_reads_what_ddprun_writes(self):
        file = self.write(
            "config.yaml",
            """\
name: digits           # /a b/digits.yaml:8:7
seed: 42
optimizer:             # x.yaml:1:1
  lr: 1e-3             # command line: optimizer.lr=1e-3
  momentum: 0.9
  nesterov: false
  groups: []
  other: {}
  nothing: null
"odd: key": "a # \\"b\\" \\\\ \\x09 ü"
run:
  dir: out/C#/x:y
  "1": -5
objective:
  metrics:
    - accuracy
    - "5"
    -
      - -1
      - deep
loggers:
  - plugin: console    # x
    every: 5st
  - plugin: csv
""",
        )
        self.assertEqual(
            read_config(file),
            {
                "name": "digits",
                "seed": 42,
                "optimizer": {
                    "lr": 0.001,
                    "momentum": 0.9,
                    "nesterov": False,
                    "groups": [],
                    "other": {},
                    "nothing": None,
                },
                "odd: key": 'a # "b" \\ \t ü',
                "run": {"dir": "out/C#/x:y", "1": -5},
                "objective": {"metrics": ["accuracy", "5", [-1, "deep"]]},
                "loggers": [{"plugin": "console", "every": "5st"}, {"plugin": "csv"}],
            },
        )

    def test_what_ddprun_does_not_write_is_refused_with_its_line(self):
        for line, text in (
            ("a: {b: 1}", "a: {b: 1}"),
            ("a", "a"),
            ("a: *b", "a: *b"),
            ('a: "b', 'a: "b'),
            ("- x", "- x"),
            ("  b: 1", "b: 1"),
        ):
            file = self.write("config.yaml", f"seed: 1\n{line}\n")
            with self.assertRaises(UserError) as caught:
                read_config(file)
            self.assertIn(f"config.yaml:2: `{text}`", str(caught.exception))

    def test_flat_names_are_those_of_overrides(self):
        config = {"a": {"b": 1, "c": []}, "d": ["x", {"e": None}]}
        self.assertEqual(flat(config), {"a.b": 1, "a.c": [], "d.0": "x", "d.1.e": None})


class Folder(FolderTest):
    def make(self):
        self.write("config.yaml", "name: digits\n")
        return ddprun.run(self.folder)

    def assert_refused(self, words, call, *arguments):
        with self.assertRaises(UserError) as caught:
            call(*arguments)
        self.assertIn(words, str(caught.exception))

    def test_what_is_no_run_is_refused(self):
        (self.folder / "digits").mkdir()
        self.write("digits/config.yaml", "name: digits\n")
        self.assert_refused("no such run", ddprun.run, self.folder / "nowhere")
        self.assert_refused(f"did you mean {self.folder}/digits?", ddprun.run, self.folder)
        self.assert_refused("No such file or directory", ddprun.runs, self.folder / "nowhere")

    def test_a_run_that_has_just_started_is_told_from_a_folder_that_is_none(self):
        with open(self.write(".lock", ""), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assert_refused("has just started", ddprun.run, self.folder)

    def test_what_a_node_has_of_a_run_that_another_one_keeps_says_where_that_is(self):
        self.make()
        (self.folder / "logs").mkdir(exist_ok=True)
        self.write("kept_elsewhere.txt", "node1:/scratch/run\nThere the first node keeps the run.\n")
        self.assert_refused("kept at node1:/scratch/run", ddprun.run, self.folder)
        self.assertEqual([run.status for run in ddprun.runs(self.folder)], ["elsewhere"])

    def test_what_a_run_under_way_does_not_have_yet_is_told(self):
        run = self.make()
        with open(self.write(".lock", ""), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assertEqual((run.status, run.summary, run.rows()), ("running", {}, []))
            self.assert_refused("has no checkpoint yet", run.weights)
        self.assertEqual(run.status, "interrupted")
        self.assert_refused("there is no metric val/loss; known: none", run.curve, "val/loss")
        self.assert_refused("has logged no predictions", run.predictions)
        with unittest.mock.patch.dict(os.environ, DDPRUN_PROGRAM="nowhere/ddprun"):
            shown = run._repr_html_()
        self.assertIn("interrupted", shown)
        self.assertIn("there is no such program", shown)

    def test_a_run_of_a_newer_version_is_read_with_a_warning(self):
        self.write("environment.json", json.dumps({"versions": {"ddprun": "99.1.0"}}))
        with self.assertWarnsRegex(UserWarning, "was written by ddprun 99.1.0, and this reads what"):
            run = self.make()
        self.write("metrics.jsonl", '{"new": 1}\n{"split": "val", "step": 1, "loss": 2}\n')
        self.assertEqual([row["loss"] for row in run.rows()], [2])
        self.write("config.yaml", "%YAML 3.0\n")
        self.assert_refused("It was written by ddprun 99.1.0; this reads what", ddprun.run, self.folder)

    def test_a_summary_counts_only_for_its_own_attempt(self):
        run = self.make()
        self.assertEqual(run.summary, {})
        self.write("summary.json", json.dumps({"status": "preempted", "attempt": 0}))
        self.assertEqual(run.status, "preempted")  # whatever .attempts says: the folder may be a copy
        self.write(".attempts", "2\n")
        self.assertEqual((run.summary, run.status), ({}, "interrupted"))
        self.write("summary.json", json.dumps({"status": "completed", "attempt": 1}))
        self.assertEqual(run.status, "completed")

    def test_a_summary_that_says_nothing_is_told(self):
        run = self.make()
        for text in ("{", "[]", '{"status": "good"}', '{"steps": 3}'):
            self.write("summary.json", text)
            self.assertEqual(run.status, "unreadable")
            with self.assertRaisesRegex(UserError, "summary.json: expected an object with the status of a run; is it damaged?"):
                run.summary

    def test_the_run_that_was_started_is_the_one_that_the_program_has_named(self):
        run = self.make()
        self.assertIsNone(told_run(self.folder / "told"))
        self.assertEqual(told_run(self.write("told", f"{self.folder}\n")).path, run.path)
        self.assertIsNone(told_run(self.write("told", f"{self.folder}/gone\n")))
        self.write("kept_elsewhere.txt", "node1:/scratch/run\n")
        self.assertEqual(told_run(self.write("told", f"{self.folder}\n")).status, "elsewhere")

    def test_an_attempt_that_was_refused_leaves_the_run_as_it_was(self):
        run = self.make()
        self.write("environment.json", json.dumps({"attempt": 0}))
        self.write("summary.json", json.dumps({"status": "completed", "attempt": 0, "steps": 20}))
        self.write(".attempts", "2\n")
        self.assertEqual((run.status, run.summary["steps"], run.attempt), ("completed", 20, 0))
        with open(self.write(".lock", f"process 1 on {socket.gethostname()}")) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.assertEqual((run.status, run.attempt), ("running", 1))

    def test_a_mistyped_run_is_told_its_nearest_neighbour(self):
        self.make()
        self.assert_refused(f"did you mean {self.folder}?", ddprun.run, f"{self.folder}x")

    def test_a_lock_that_is_held_is_seen_and_not_disturbed(self):
        run = self.make()
        self.assertIsNone(run.is_held())
        self.assertFalse(run.was_started_here())
        with open(self.write(".lock", f"process 1 on {socket.gethostname()}")) as file:
            self.assertFalse(run.is_held())
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.assertTrue(run.is_held())
        self.assertFalse(run.is_held())
        self.assertTrue(run.was_started_here())
        self.write(".lock", "process 1 on another.machine")
        self.assertFalse(run.was_started_here())

    def test_a_checkpoint_that_is_torn_is_refused(self):
        run = self.make()
        folder = self.folder / "checkpoints/step_00000010"
        folder.mkdir(parents=True)
        self.write("checkpoints/step_00000010/manifest.json", "{}")
        header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
        whole = struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1, 2)
        for data, words in ((whole[:4], "cannot be"), (whole[:-1], "numbers of w"), (whole.replace(b"F32", b"F99"), "F99")):
            self.write("checkpoints/step_00000010/model.safetensors", data)
            self.assert_refused(words, run.weights, 10)
        self.write("checkpoints/step_00000010/model.safetensors", whole)
        self.assertEqual(run.weights(10)["w"].tolist(), [1, 2])
        self.write("checkpoints/step_00000010/manifest.json", '{"left_out": {"digest": "0", "parameters": 1, "bytes": 4}}')
        self.assert_refused("holds only what trains (checkpoint.only_trainable): run.export(FILE, 10) writes all weights", run.weights, 10)
        self.assertEqual(run.weights(10, only_trainable=True)["w"].tolist(), [1, 2])
        self.assert_refused("has no checkpoint best; there are: step 10", run.weights)

    def test_links_that_lead_out_are_not_followed(self):
        for name in ("mine", "theirs/run/checkpoints/step_00000001"):
            (self.folder / name).mkdir(parents=True)
        for name in ("mine", "theirs/run"):
            self.write(f"{name}/config.yaml", "name: x\n")
        (self.folder / "theirs/latest").symlink_to("../mine")
        self.assert_refused("name the folder itself", ddprun.run, self.folder / "theirs/latest")
        (self.folder / "theirs/latest").unlink()
        (self.folder / "theirs/latest").symlink_to("run")
        run = ddprun.run(self.folder / "theirs/latest")
        self.assertEqual(run.path, self.folder / "theirs/run")
        (run.path / "checkpoints/best").symlink_to(self.folder / "mine")
        self.assert_refused("a link to a checkpoint beside it", run.weights)
        self.write("theirs/run/a.png", "")
        rows = [{"id": i, "image": name} for i, name in enumerate(("a.png", "../../private.png", str(self.folder), "a\0"))]
        self.write("theirs/run/tables.jsonl", json.dumps({"kind": "predictions", "split": "val", "step": 1, "rows": rows}) + "\n")
        with unittest.mock.patch.dict(sys.modules, {"pandas": None}):
            found = run.predictions()
        self.assertEqual([row["image"] for row in found], [str(run.path / "a.png"), None, None, None])

    @unittest.mock.patch.multiple("ddprun.rows", MOST_LINE=100, MOST_SKIPPED=1000)
    def test_only_files_that_lie_in_its_folder_are_read_and_nothing_is_waited_for(self):
        secret = self.write("secret", "password: hunter2\n")
        for kind, make, told in (("link", lambda file: file.symlink_to(secret), "is a link"),
                                 ("endless", lambda file: file.symlink_to("/dev/zero"), "is a link"),
                                 ("pipe", os.mkfifo, "is a pipe"), ("folder", os.mkdir, "is a folder"),
                                 ("hole", lambda file: (file.touch(), os.truncate(file, 1 << 40)), "has more than|a line of more than")):
            for name, read in (("config.yaml", lambda run: run.config), ("summary.json", lambda run: run.summary),
                               ("environment.json", lambda run: run.version), ("overrides.txt", lambda run: run.overrides),
                               (".attempts", lambda run: run.attempt), (".lock", lambda run: run.is_held()),
                               ("kept_elsewhere.txt", lambda run: run.kept_elsewhere()), ("metrics.jsonl", lambda run: run.rows()),
                               ("tables.jsonl", lambda run: run.predictions())):
                if (kind, name) == ("hole", ".lock"):  # nobody reads it
                    continue
                with self.subTest(kind=kind, name=name):
                    folder = self.folder / kind / name
                    (folder / "logs").mkdir(parents=True)
                    if name != "config.yaml":
                        self.write(f"{kind}/{name}/config.yaml", "name: x\n")
                    make(folder / name)
                    with self.assertRaisesRegex(UserError, f"{name}: ({told})") as caught:
                        read(Run(folder))
                    self.assertNotIn("hunter2", str(caught.exception))
        found = ddprun.runs(self.folder)
        self.assertEqual(len(found), 44)
        readable = {(run.path.parent.name, run.path.name) for run in found if run.status != "unreadable"}
        self.assertEqual({name for _, name in readable}, {"metrics.jsonl", "tables.jsonl"})
        self.assertEqual({kind for kind, name in readable if name == "metrics.jsonl"}, {"hole"})
        self.assertNotIn("hunter2", repr(found) + found._repr_html_())

    def test_a_terminal_obeys_nothing_of_a_run(self):
        name = "\x1b[2J\x9b8m\udc9b"
        (self.folder / name / "logs").mkdir(parents=True)
        self.write(f"{name}/config.yaml", "name: x\n")
        self.write(f"{name}/summary.json", json.dumps({"status": "\x1b]0;me\x07", "attempt": 0}))
        [run] = found = ddprun.runs(self.folder)
        self.assertEqual(repr(run), f'<ddprun.Run "{self.folder}/?[2J?8m?": unreadable>')
        self.assertEqual(repr(found).splitlines()[1], "?[2J?8m?: unreadable")
        self.assert_refused("?[2J?8m? has no checkpoint", run.weights)
        self.assertEqual(str(ddprun.Failed(1, ["a\x1b[2J", "b"], run)).splitlines()[1:], ["a?[2J", "b"])

    def test_errors_reach_other_processes_whole(self):
        for error in (ddprun.UserError("x"), ddprun.Failed(2, ["a", "b"], None), ddprun.Interrupted(130, None)):
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again), vars(again)), (type(error), str(error), vars(error)))

    def test_what_is_nested_without_end_is_broken_and_no_more(self):
        deep, run = "[" * 100_000 + "]" * 100_000, self.make()
        self.write("environment.json", deep)
        self.write("metrics.jsonl", f'{{"deep": {deep}}}\n{{"split": "val", "step": 1, "loss": 2}}\n')
        self.assertEqual((run.summary, run.version, [row["loss"] for row in run.rows()]), ({}, "", [2]))
        self.write("summary.json", deep)
        self.assertEqual(run.status, "unreadable")
        (self.folder / "checkpoints/step_00000001").mkdir(parents=True)
        self.write("checkpoints/step_00000001/manifest.json", "{}")
        header = f'{{"w": {deep}}}'.encode()
        self.write("checkpoints/step_00000001/model.safetensors", struct.pack("<Q", len(header)) + header)
        self.assert_refused("is not a whole safetensors file", run.weights, 1)
        self.write("config.yaml", "".join(f"{' ' * i}a:\n" for i in range(2000)))
        self.assert_refused("nested too deeply", ddprun.run, self.folder)

    def test_the_newest_run_comes_first_and_a_broken_one_is_listed(self):
        for name, hour in (("a", 9), ("b", 11), ("c", 10)):
            (self.folder / name / "logs").mkdir(parents=True)
            self.write(f"{name}/config.yaml", "name: [\n" if name == "b" else "name: x\n")
            self.write(f"{name}/environment.json", json.dumps({"time": f"2026-11-20T{hour:02}:00:00+0100"}))
        (self.folder / "latest").symlink_to("a")
        found = ddprun.runs(self.folder)
        self.assertEqual(found.labels(), ["b", "c", "a"])
        self.assertEqual(found._repr_html_().count("interrupted"), 3)


class Best(unittest.TestCase):
    def test_is_of_what_the_experiment_follows(self):
        for config, goal in (
            ({}, ("val/accuracy", True)), ({"objective": "mse"}, ("val/loss", False)), ({"objective": {"name": "l1"}}, ("val/loss", False)),
            ({"checkpoint": {"monitor": "val/perplexity"}}, ("val/perplexity", False)),
            ({"checkpoint": {"monitor": "val/loss", "mode": "max"}}, ("val/loss", True)), ({"checkpoint": None}, ("val/accuracy", True)),
        ):  # fmt: skip
            self.assertEqual(goal_of(config), goal)

    def test_of_equal_values_is_that_with_the_lower_loss_then_the_earlier_one(self):
        rows = [row(0, step, "val", accuracy=accuracy, loss=loss)
                for step, accuracy, loss in ((1, 0.5, 1), (2, 0.9, 3), (3, 0.9, 2), (4, 0.9, 2), (5, None, 0))]  # fmt: skip
        rows.append(row(0, 6, "train", accuracy=1, loss=0))
        self.assertEqual(list(best_of(rows, "val/accuracy", True).items()), [("val/accuracy", 0.9), ("val/loss", 2)])
        self.assertEqual(best_of(rows, "val/accuracy", False)["val/loss"], 1)
        self.assertEqual(best_of(rows, "val/f1", True), {})


class Clocks(FolderTest):
    def test_a_clock_that_is_set_back_orders_no_rows(self):
        rows = [row(0, step, time=time) for step, time in ((1, 100), (2, 110), (3, 50), (4, 65))]
        rows += [row(1, 5, time=20), row(1, 6, time=21)]
        clock = training_clock(rows)
        self.assertEqual([clock[id(one)] for one in rows], [0, 10, 10, 25, 25, 26])


class Words(unittest.TestCase):
    def test_an_override_is_read_as_the_value_that_it_was(self):
        for value, text in (
            (3, "3"), (1e-5, "1e-05"), (True, "true"), (None, "null"), (math.inf, ".inf"), ("adam", "adam"), ("1ep", "1ep"),
            ("true", '"true"'), ("5", '"5"'), ("", '""'), ("[a", '"[a"'), ("${seed}", "${seed}"), (pathlib.Path("a/b"), "a/b"),
            (["console", 1], '["console", 1]'), ({"plugin": "mlp", "hidden": None}, '{"plugin": "mlp", "hidden": null}'),
        ):  # fmt: skip
            self.assertEqual(override_text(value, "key"), text)
        with self.assertRaisesRegex(UserError, "key: a set cannot be an override"):
            override_text([{1}], "key")

    def test_the_version_is_that_of_the_program(self):
        stated = re.search(r"^project\(ddprun VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)
        self.assertEqual(ddprun.__version__, stated[1])


if __name__ == "__main__":
    unittest.main()

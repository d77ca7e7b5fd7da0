# SPDX-License-Identifier: MIT
"""What the Python package says of runs as they are found: growing, torn, missing, of several attempts, of another version."""

import fcntl
import json
import math
import os
import pathlib
import pickle
import re
import struct
import sys
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "sdk/python"), str(ROOT / "tests/end_to_end")]

from command import CommandTest  # noqa: E402

import ddprun  # noqa: E402
from ddprun import Run, UserError, lock  # noqa: E402
from ddprun.overrides import override_text  # noqa: E402
from ddprun.run_list import flat  # noqa: E402
from ddprun.training import named_run  # noqa: E402

CONFIG = """\
name: digits           # /a b/digits.yaml:8:7
seed: 18446744073709551615
optimizer:             # x.yaml:1:1
  lr: 1e-3             # command line: optimizer.lr=1e-3
  momentum: .9
  nesterov: False
  groups: []
  other: {}
  nothing: null
"odd: key": "a # \\"b\\" \\\\ \\x09 ü"
run:
  dir: out/C#/x:y
  "1": -5
objective:
  metrics: [accuracy, "5", [-1, "true", 1.2.3]]
loggers:
  - plugin: console    # x
    every: 5st
  - plugin: csv
"""
READ = {
    "name": "digits", "seed": 2**64 - 1,
    "optimizer": {"lr": 0.001, "momentum": 0.9, "nesterov": False, "groups": [], "other": {}, "nothing": None},
    "odd: key": 'a # "b" \\ \t ü', "run": {"dir": "out/C#/x:y", "1": -5}, "objective": {"metrics": ["accuracy", "5", [-1, "true", "1.2.3"]]},
    "loggers": [{"plugin": "console", "every": "5st"}, {"plugin": "csv"}],
}  # fmt: skip
DEEP = "[" * 100_000 + "]" * 100_000


class FolderTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "runs/one"
        (self.run_folder / "logs").mkdir(parents=True)
        self.write("config.yaml", "name: digits\n")

    def write(self, name, text):
        file = self.run_folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def write_weights(self, data, step=10, manifest="{}"):
        self.write(f"checkpoints/step_{step:08}/manifest.json", manifest)
        self.write(f"checkpoints/step_{step:08}/model.safetensors", data)

    def assert_refused(self, words, call, *arguments, **settings):
        with self.assertRaisesRegex(UserError, words):
            call(*arguments, **settings)


class Folder(FolderTest):
    def test_the_experiment_is_as_its_file_says(self):
        self.write("config.yaml", CONFIG)
        self.assertEqual(ddprun.run(self.run_folder).config, READ)
        for broken, words in (("seed: [\n", "config.yaml:2"), ("- 1\n", "this is no experiment"), ("", "missing or empty")):
            self.write("config.yaml", broken)
            self.assert_refused(words, ddprun.run, self.run_folder)

    def test_what_is_no_run_is_refused(self):
        for path, words in (("nowhere", "No such file or directory"), ("runs", "runs is not a run folder: it has no config.yaml"),
                            ("runs/onee", f"did you mean {self.run_folder}?")):  # fmt: skip
            self.assert_refused(re.escape(words), ddprun.run, self.folder / path)
        self.assert_refused("No such file or directory", ddprun.runs, self.folder / "nowhere")

    def test_what_a_node_has_of_a_run_that_another_one_keeps_says_where_that_is(self):
        self.write("kept_elsewhere.txt", "node1:/scratch/run\nThere the first node keeps the run.\n")
        self.assert_refused("kept at node1:/scratch/run", ddprun.run, self.run_folder)
        self.assertEqual([run.status for run in ddprun.runs(self.folder)], ["elsewhere"])

    def test_what_a_run_under_way_does_not_have_yet_is_said(self):
        run = ddprun.run(self.run_folder)
        file = self.write(".lock", "process 1 on here")
        self.assertIs(lock.is_held(file), False)
        with open(file) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self.assertEqual((run.status, run.summary, run.best, run.metrics(), run.started), ("running", {}, {}, [], None))
            self.assert_refused("has no checkpoint yet", run.weights)
            self.assertEqual((lock.is_held(file), lock.owner(file)), (True, (1, "here")))
        self.assertEqual(run.status, "interrupted")
        self.assert_refused("there is no metric val/loss; known: none", run.curve, "val/loss")
        self.assert_refused("has logged no predictions", run.predictions)
        with unittest.mock.patch.dict(os.environ, DDPRUN_PROGRAM="nowhere/ddprun"):
            self.assertIn("there is no such program", run._repr_html_())

    def test_a_run_of_a_newer_version_is_read_with_a_warning(self):
        self.write("environment.json", json.dumps({"versions": {"ddprun": "99.1.0"}}))
        self.write("metrics.jsonl", '{"new": 1}\n{"split": "val", "step": 1, "loss": 2}\n')
        with self.assertWarnsRegex(UserWarning, "was written by ddprun 99.1.0, and this reads what"):
            run = ddprun.run(self.run_folder)
        self.assertEqual([row["loss"] for row in run.metrics()], [2])

    def test_rows_are_those_that_count_as_they_were_written(self):
        rows = [{"attempt": attempt, "split": split, "epoch": 1, "step": step, "samples": 0, "b": step / 3, "a": None, "time": 7}
                for attempt, split, step in ((0, "train", 2), (0, "train", 4), (0, "val", 4), (0, "val", 6), (1, "train", 4))]  # fmt: skip
        torn = '{"split": "train", "st'
        self.write("metrics.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows) + f'{{"split": "train", "deep": {DEEP}}}\n{torn}')
        found = ddprun.run(self.run_folder).metrics()
        self.assertEqual([(row["attempt"], row["split"], row["step"], row["b"]) for row in found],
                         [(0, "train", 2, 2 / 3), (0, "val", 4, 4 / 3), (1, "train", 4, 4 / 3)])  # fmt: skip
        self.assertEqual(list(found[0]), ["split", "epoch", "step", "samples", "b", "a", "time", "attempt"])
        self.assertTrue(math.isnan(found[0]["a"]))

    def test_the_run_that_was_started_is_the_one_that_the_program_has_named(self):
        self.assertIsNone(named_run(self.folder / "named"))
        for path, found in ((self.run_folder, self.run_folder), (self.folder / "gone", None)):
            (self.folder / "named").write_text(f"{path}\n")
            self.assertEqual(getattr(named_run(self.folder / "named"), "path", None), found)

    def test_a_checkpoint_that_is_torn_is_refused(self):
        run = ddprun.run(self.run_folder)
        header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
        whole = struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1, 2)
        deep = f'{{"w": {DEEP}}}'.encode()
        for data, words in ((whole[:4], "cannot be"), (whole[:-1], "numbers of w"), (whole.replace(b"F32", b"F99"), "F99"),
                            (struct.pack("<Q", len(deep)) + deep, "is not a whole safetensors file")):  # fmt: skip
            self.write_weights(data)
            self.assert_refused(words, run.weights, 10)
        self.write_weights(whole)
        self.assertEqual(run.weights(10)["w"].tolist(), [1, 2])
        self.write_weights(whole, manifest='{"left_out": {"digest": "0", "parameters": 1, "bytes": 4}}')
        self.assert_refused(r"holds only what trains \(checkpoint.only_trainable\): run.export\(FILE, 10\) writes all weights", run.weights, 10)
        self.assertEqual(run.weights(10, only_trainable=True)["w"].tolist(), [1, 2])
        for link, to in (("best", self.folder / "runs"), ("last", "step_00000011")):
            (self.run_folder / "checkpoints" / link).symlink_to(to)
            self.assert_refused(f"has no checkpoint {link}; there are: step 10", run.weights, link)
        self.assert_refused('must be "best", "last" or a step', run.weights, True)

    def test_pictures_of_predictions_are_those_in_its_folder(self):
        self.write("a.png", "")
        images = ("a.png", "../../secret.png", str(self.folder), "a\0")
        rows = [{"id": i, "truth": 1, "guess": 2, "image": name} for i, name in enumerate(images)]
        lines = [{"kind": "predictions", "split": "val", "step": step, "classes": ["x", "y"], "rows": rows[:many]} for step, many in ((1, 1), (2, 4))]
        self.write("tables.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
        found = ddprun.run(self.run_folder).predictions()
        self.assertEqual([row["image"] for row in found], [str(self.run_folder / "a.png"), None, None, None])
        self.assertEqual((found[0]["truth_name"], found[0].get("guess_name"), found[0]["step"]), ("y", None, 2))

    def test_only_files_that_lie_in_its_folder_are_read_and_nothing_is_waited_for(self):
        secret = self.folder / "secret"
        secret.write_text("hunter2 is the password\n")
        names = ("config.yaml", "summary.json", "environment.json", "overrides.txt", ".attempts", "kept_elsewhere.txt", "metrics.jsonl",
                 "tables.jsonl", "events.jsonl", "run.json")  # fmt: skip
        for kind, make, words in (("link", lambda file: file.symlink_to(secret), "is a link"),
                                  ("endless", lambda file: file.symlink_to("/dev/zero"), "is a link"),
                                  ("pipe", os.mkfifo, "is a pipe"), ("folder", os.mkdir, "is a folder"),
                                  ("hole", lambda file: (file.touch(), os.truncate(file, 1 << 40)), "has more than")):  # fmt: skip
            for name in names:
                if kind == "hole" and name.endswith("jsonl"):  # of which a gigabyte is read
                    continue
                with self.subTest(kind=kind, name=name):
                    self.run_folder = self.folder / "runs" / kind / name
                    self.write("logs/none", "")
                    if name != "config.yaml":
                        self.write("config.yaml", "name: x\n")
                    make(self.run_folder / name)
                    with self.assertRaisesRegex(UserError, f"{name}: ({words})") as caught:
                        Run(self.run_folder).predictions()
                    self.assertNotIn("hunter2", str(caught.exception))
        found = ddprun.runs(self.folder)
        self.assertEqual(len(found), 48)
        readable = {run.path.name for run in found if run.status != "unreadable"}
        self.assertEqual(readable, {"one", "tables.jsonl"}, "the status does not need them")
        self.assertNotIn("hunter2", repr(found))

    def test_a_terminal_obeys_nothing_of_a_run(self):
        self.run_folder = self.folder / "runs/\x1b[2J\x9b8m"
        self.write("logs/none", "")
        self.write("config.yaml", "name: x\n")
        self.write("summary.json", json.dumps({"status": "\x1b]0;me\x07", "attempt": 0}))
        [run] = [one for one in ddprun.runs(self.folder) if one.path.name != "one"]
        self.assertEqual(repr(run), f'<ddprun.Run "{self.folder}/runs/?[2J?8m": unreadable>')
        self.assert_refused(r"\?\[2J\?8m/summary.json: expected an object", run.weights)
        self.assertEqual(str(ddprun.Failed(1, ["a\x1b[2J", "b"], run)).splitlines()[1:], ["a?[2J", "b"])


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

    def test_flat_names_are_those_of_overrides(self):
        config = {"a": {"b": 1, "c": []}, "d": ["x", {"e": None}]}
        self.assertEqual(flat(config), {"a.b": 1, "a.c": [], "d.0": "x", "d.1.e": None})

    def test_errors_reach_other_processes_whole(self):
        for error in (UserError("x"), ddprun.Failed(2, ["a", "b"], None), ddprun.Interrupted(130, None)):
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again), vars(again)), (type(error), str(error), vars(error)))

    def test_the_version_is_that_of_the_program(self):
        stated = re.search(r"^project\(ddprun VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)
        self.assertEqual(ddprun.__version__, stated[1])


if __name__ == "__main__":
    unittest.main()

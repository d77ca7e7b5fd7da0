# SPDX-License-Identifier: MIT
"""A power cut at each moment of a run, with all that a disk may lose then. What the run has reported stays true: the newest checkpoint is
whole, the rows that it stands for are there, no file is torn; and `ddprun resume` comes to the end of the run that nobody disturbed."""

import json
import sys
import unittest

from recorded import NIGHTLY, ROOT, TINY, RecordedTest
from run_history import RunHistory, json_rows, newest_whole, objects, steps

from command import DDPRUN, main, results

import ddprun


# A run's logger and tools/follow in one.
FOLLOWER = """
import pathlib, sys, types
sys.path.insert(0, sys.argv[1])
import tooling
from follow.journal import Journal
run = pathlib.Path(sys.argv[2])
run.mkdir(parents=True)
journal = None
for step in (1, 2, 3):
    with open(run / "metrics.jsonl", "a") as rows:
        rows.write("a row of %d bytes" % step * 100)
    journal = journal or Journal(types.SimpleNamespace(path=run), "wandb")
    journal.add(step, {"metrics.jsonl": (run / "metrics.jsonl").stat().st_size})
"""


class PowerCut(RecordedTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.disk / "outputs/tiny"

    def train(self, *words, **options):
        return self.record(*TINY, f"run.dir={self.run_folder}", *words, **options)

    def check(self, resumed, verified):
        """All cuts as our reader sees them, some as the program does."""
        cuts = self.check_all(RunHistory("outputs/tiny"))
        begun = [cut for cut in cuts if "outputs/tiny/config.yaml" in cut.state]
        for cut in self.sample(begun, verified):
            with self.subTest(str(cut)):
                self.assert_read_alike(cut)
        for cut in self.sample(begun, resumed):
            with self.subTest(str(cut)):
                self.assert_same_end(self.restore(cut) / "outputs/tiny", cut)

    def assert_read_alike(self, cut):
        run = self.restore(cut) / "outputs/tiny"
        state = {path.removeprefix("outputs/tiny/"): content for path, content in cut.state.items()}
        whole = newest_whole(state)
        reported = self.start("verify", run, "--json")
        self.assertIn(reported.wait(), (0, 1), reported.text())
        report = json.loads(reported.out())
        self.assertEqual([one["step"] for one in report["checkpoints"]], steps(state))
        self.assertEqual(max((one["step"] for one in report["checkpoints"] if one["ok"]), default=-1), whole)
        self.ddprun("list", run.parent)
        rows = ddprun.run(run).known("metrics")["metrics"]
        written = [json.loads(line) for line in json_rows((self.run_folder / "metrics.jsonl").read_bytes())]
        self.assertEqual([row for row in rows if row not in written], [])

    def assert_same_end(self, run, cut):
        resumed = self.start("resume", run)
        self.assertEqual(resumed.wait(), 0, resumed.text())
        mine, other = (path / "checkpoints/last/model.safetensors" for path in (run, self.run_folder))
        self.assertEqual(mine.read_bytes(), other.read_bytes())
        self.assertEqual(results(run), results(self.run_folder))
        self.assertEqual(newest_whole({str(path.relative_to(run)): path.read_bytes() if path.is_file() else None
                                       for path in run.rglob("*")}), 6)

    def test_a_run_of_two_workers(self):
        self.train("launch.workers=2")
        self.check(resumed=60 if NIGHTLY else 2, verified=200 if NIGHTLY else 3)

    def test_workers_that_write_one_file_together(self):
        self.train("launch.workers=2", "trainer.shard_optimizer=true", "optimizer=adamw", "trainer.ema_decay=0.9")
        self.check(resumed=40 if NIGHTLY else 1, verified=100 if NIGHTLY else 2)

    def test_a_run_that_is_killed_and_resumed(self):
        self.train(env={"DDPRUN_FAULT": "kill:before_prune:4:0:0"}, code=137)
        self.record("resume", self.run_folder)
        self.check(resumed=40 if NIGHTLY else 1, verified=100 if NIGHTLY else 2)

    def test_the_newest_run_is_the_one_that_latest_leads_to(self):
        start = [*TINY, "launch.workers=1", "trainer.max_steps=1"]
        self.start_program("sh", "-c", 'cd "$1"; shift; exec "$@"', "sh", self.disk, DDPRUN, *start, env=self.recording()).wait()
        run, = (self.disk / "outputs/digits").glob("2*/config.yaml")
        for cut in self.cuts(RunHistory("")):
            if str(run.relative_to(self.disk)) in cut.state:
                self.assertEqual(cut.state.get("outputs/digits/latest"), run.parent.name, str(cut))

    def test_what_a_follower_has_noted_is_there(self):
        self.start_program(sys.executable, "-B", "-c", FOLLOWER, ROOT / "tools/lib", self.run_folder, env=self.recording()).wait()
        for cut in self.cuts(RunHistory("")):
            rows = cut.state.get("outputs/tiny/metrics.jsonl", b"")
            for _, note in objects(cut.state.get("outputs/tiny/wandb/follow.jsonl", b"")):
                if "end" in note:
                    self.assertGreaterEqual(len(rows.rstrip(b"\0")), note["end"]["metrics.jsonl"], str(cut))

    def test_what_commands_write_of_a_run(self):
        self.ddprun(*TINY, "run.dir=run")
        for words in (["export", "run", "--out", "model.pt"], ["predict", "run", "--out", "predictions.csv"],
                      ["report", "run", "--out", "report.html"]):
            self.record(words[0], self.folder / "run", "--out", self.disk / words[3])
        self.check_all(RunHistory(""))


if __name__ == "__main__":
    main()

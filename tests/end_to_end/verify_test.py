# SPDX-License-Identifier: MIT
"""Are the checkpoints of a run what they were? Whole ones, broken ones, and those of a run that continues meanwhile."""

import json
import shutil
import unittest

from command import SMALL, CommandTest, checkpoint_steps


class Verify(CommandTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"
        self.checkpoints = self.run_folder / "checkpoints"

    def train(self):
        self.ddprun(*SMALL, "model=convnet_bn", "launch.workers=2", "trainer.max_epochs=3", "checkpoint.keep=3", "run.dir=run")
        self.assertEqual(checkpoint_steps(self.run_folder), [10, 20, 30])

    def verify(self, code, what="run"):
        lines = self.ddprun("verify", what, code=code).out().splitlines()
        return {line.split()[0]: line for line in lines}

    def test_whole_checkpoints_are_reported_with_size_and_time(self):
        self.train()
        before = {path: path.read_bytes() for path in self.run_folder.rglob("*") if path.is_file()}
        lines = self.verify(0)
        for step in (10, 20, 30):
            self.assertRegex(lines[f"step_{step:08}"], r"^step_\d{8}  ok  \d+\.\d MB, saved 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d$")
        self.assertEqual(lines["last"], "last -> step_00000030")
        self.assertRegex(lines["best"], r"^best -> step_000000[123]0$")
        for one in ("run/checkpoints/last", "run/checkpoints/step_00000010"):
            self.assertIn("  ok  ", self.ddprun("verify", one).out())
        shutil.copytree(self.checkpoints / "step_00000010", self.folder / "copy")
        self.assertIn("copy  ok  ", self.ddprun("verify", "copy").out())
        self.assertEqual({path: path.read_bytes() for path in self.run_folder.rglob("*") if path.is_file()}, before)

    def test_each_flaw_is_reported_with_the_file(self):
        self.train()
        flipped = self.checkpoints / "step_00000010/model.safetensors"
        content = bytearray(flipped.read_bytes())
        content[-5] ^= 1
        flipped.write_bytes(content)
        torn = self.checkpoints / "step_00000030/optimizer.safetensors"
        torn.write_bytes(torn.read_bytes()[:-1])
        (self.checkpoints / "step_00000030/rank_1.safetensors").unlink()
        (self.checkpoints / "step_00000030/notes.txt").write_text("mine")
        (self.checkpoints / "step_00000040.tmp").mkdir()
        lines = self.verify(1)
        self.assertRegex(lines["step_00000010"], "BROKEN  model.safetensors: flipped: its SHA-256 is [0-9a-f]{12}[.]{3}, the manifest says [0-9a-f]{12}[.]{3}$")
        self.assertIn("  ok  ", lines["step_00000020"])
        for words in ("optimizer.safetensors: torn: it has", "rank_1.safetensors: missing", "notes.txt: unknown"):
            self.assertIn(words, lines["step_00000030"])
        self.assertIn("leftover", lines["step_00000040.tmp"])
        self.assertEqual(lines["last"], "last -> step_00000030  (broken)")
        self.assertIn("would resume from step_00000020", lines["ddprun"])

        found = json.loads(self.ddprun("verify", "run", "--json", code=1).out())
        self.assertEqual((found["ok"], found["last"], found["resume"]), (False, "step_00000030", "step_00000020"))
        self.assertEqual(found["leftovers"], ["step_00000040.tmp"])
        self.assertEqual([one["ok"] for one in found["checkpoints"]], [False, True, False])
        flaws = {(flaw["file"], flaw["kind"]) for flaw in found["checkpoints"][2]["flaws"]}
        self.assertEqual(flaws, {("optimizer.safetensors", "torn"), ("rank_1.safetensors", "missing"), ("notes.txt", "unknown")})
        one = json.loads(self.ddprun("verify", "run/checkpoints/step_00000010", "--json", code=1).out())
        self.assertEqual((one["step"], one["world_size"], one["flaws"][0]["kind"]), (10, 2, "flipped"))

        self.ddprun("resume", "run", "trainer.max_epochs=4")
        self.assertNotIn("step_00000040.tmp", self.verify(0), "the resumed run has cleaned up")

    def test_a_run_that_saves_and_prunes_meanwhile_has_no_flaw(self):
        running = self.start(*SMALL, "model=mlp", "trainer.max_epochs=1000000", "checkpoint.every=1st", "checkpoint.keep=1",
                             "run.dir=run")
        self.wait_for_step(running, self.run_folder, 4)
        for _ in range(10):
            self.verify(0)
        self.assertFalse(running.ended(), running.text())

    def test_what_is_neither_a_run_nor_a_checkpoint_is_refused(self):
        self.assertIn("neither a run's folder", self.assert_refused("verify", "home"))
        self.assertIn("nowhere: No such file", self.assert_refused("verify", "nowhere"))


if __name__ == "__main__":
    unittest.main()

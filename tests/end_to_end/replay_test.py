# SPDX-License-Identifier: MIT
"""ddprun replay: steps that are made again have the digests that the run has recorded, unless something is not as it was."""

import json
import re
import signal
import unittest

from command import SMALL, CommandTest, Gate

WORDS = [*SMALL, "model=mlp", "model.hidden=32", "trainer.max_epochs=3", "checkpoint.every=8st", "checkpoint.keep=9", "run.dir=run",
         "optimizer=adamw", "trainer.ema_decay=0.9", "schedule={name: cosine}"]


def digests(run):
    return {row["step"]: row["digest"] for row in map(json.loads, (run / "digests.jsonl").read_text().splitlines())}


SAME = r"the same bits in (\d+) of \1 digests\n$"


class Replay(CommandTest):
    def replay(self, *words, code=0):
        return self.ddprun("replay", "run", *words, code=code).out()

    def test_the_same_bits_on_any_number_of_workers_with_shards_and_on_its_own_without(self):
        self.ddprun(*WORDS, "trainer.shards=4", "launch.workers=2")
        self.assertEqual(list(digests(self.folder / "run")), list(range(2, 31, 2)))
        before = {path: path.read_bytes() for path in (self.folder / "run").rglob("*") if path.is_file()}
        self.assertEqual(self.replay("--step", "19", "--workers", "3"),
                         "replay: steps 17 to 20 from step_00000016, 3 workers (the run had 2): the same bits in 2 of 2 digests\n")
        self.assertIn("steps 1 to 8 from the beginning, 2 workers (the run had 2): the same bits in 4 of 4 digests", self.replay("--step=8"))
        self.assertEqual({path: path.read_bytes() for path in before}, before)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        self.ddprun(*WORDS[:-1], "launch.workers=2", "run.dir=plain")
        self.assertRegex(self.ddprun("replay", "plain", "--step", "24").out(), SAME)
        refused = self.ddprun("replay", "plain", "--step", "24", "--workers", "1", code=2).err()
        self.assertIn("--workers 1: the run had 2, and without trainer.shards the bits depend on their number", refused)

    def test_a_killed_and_resumed_run_has_the_digests_of_its_last_attempts(self):
        held = self.start_held(13, *WORDS, "trainer.shards=2")
        self.kill(held)
        self.ddprun("resume", "run", "launch.workers=2")
        self.assertRegex(self.replay("--step", "16", "--workers", "1"), "steps 11 to 16 .*" + SAME)
        self.assertRegex(self.replay("--step", "30"), SAME)

    def test_where_the_bits_are_others_it_says_from_which_step_on_and_what_has_changed(self):
        self.ddprun(*WORDS, "launch.workers=1")
        file = self.folder / "run/digests.jsonl"
        text = file.read_text()
        old = digests(self.folder / "run")[14]
        file.write_text(text.replace(old, f"{int(old, 16) ^ 1:016x}"))
        self.assertIn("other bits after step 14, the first of 3 digests that differs", self.replay("--step", "16", code=1))
        environment = self.folder / "run/environment.json"
        environment.write_text(re.sub(r'(mlp.so",\s+"sha256": ")\w{8}', r"\g<1>00000000", environment.read_text()))
        self.assertIn("; mlp.so is another build than the run's", self.replay("--step", "16", code=1))

    def test_what_cannot_be_made_again_is_refused(self):
        self.ddprun(*WORDS, "launch.workers=1", "trainer.max_steps=4")
        for words, message in ((["--step", "9"], "--step 9: expected 1 to 4, the last step of "), (["--step", "0"], "--step 0: expected 1 to 4")):
            self.assertIn(message, self.ddprun("replay", "run", *words, code=2).err())
        (self.folder / "run/digests.jsonl").unlink()
        self.assertIn("has no digests.jsonl", self.ddprun("replay", "run", "--step", "2", code=2).err())
        self.assertIn("none", self.ddprun("replay", "none", "--step", "2", code=2).err())

    def test_a_signal_ends_it_with_what_it_has_started(self):
        self.ddprun(*WORDS, "launch.workers=1")
        gate = Gate(self, 10)
        running = self.start("replay", "run", "--step", "16", env=gate.env)
        gate.wait(running)
        running.send(signal.SIGTERM)
        self.assertEqual(running.wait(), 75, running.text())
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()

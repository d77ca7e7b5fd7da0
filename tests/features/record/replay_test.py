# SPDX-License-Identifier: MIT
"""ddprun replay: steps that are made again have the digests that the run has recorded, unless something is not as it was."""

import json
import math
import pathlib
import random
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "end_to_end"))

from browser import CHROMIUM, PageTest, data_of  # noqa: E402
from command import NIGHTLY, SMALL, CommandTest  # noqa: E402
from diff_test import INPUTS, SAMPLES, UnsteadyTest  # noqa: E402

WORDS = [*SMALL, "model=mlp", "model.hidden=32", "trainer.max_epochs=3", "checkpoint.every=8st", "checkpoint.keep=9", "run.dir=run",
         "optimizer=adamw", "trainer.ema_decay=0.9", "schedule={name: cosine}"]


def digests(run):
    return {row["step"]: row["bits"] for row in map(json.loads, (run / "digests.jsonl").read_text().splitlines())}


SAME = r"the same bits in (\d+) of \1 digests\n"


class Replay(CommandTest):
    def replay(self, *words, code=0, run="run"):
        return re.sub(r"\n  (?=[^ ])", " ", self.ddprun("replay", run, *words, code=code).out())

    def test_the_same_bits_on_any_number_of_workers_with_shards_and_on_its_own_without(self):
        self.ddprun(*WORDS, "trainer.shards=4", "launch.workers=2", "trainer.shard_optimizer=true")
        self.assertEqual(list(digests(self.folder / "run")), list(range(2, 31, 2)))
        before = {path: path.read_bytes() for path in (self.folder / "run").rglob("*") if path.is_file()}
        self.assertRegex(self.replay("--step", "19", "--workers", "3"),
                         r"^step 19: loss (.*\n)*replay: steps 17 to 20 from step_00000016, 3 workers \(the run had 2\): the same bits in 2 of 2 digests\n")
        self.assertIn("steps 1 to 8 from the beginning, 2 workers (the run had 2): the same bits in 4 of 4 digests", self.replay("--step=8"))
        self.assertEqual({path: path.read_bytes() for path in before}, before)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        self.ddprun(*WORDS[:-1], "launch.workers=2", "run.dir=plain")
        self.assertRegex(self.replay("--step", "24", run="plain"), SAME)
        refused = self.ddprun("replay", "plain", "--step", "24", "--workers", "1", code=2).err()
        self.assertIn("--workers 1: the run had 2, and without trainer.shards the bits depend on their number", refused)

    def test_a_killed_and_resumed_run_has_the_digests_of_its_last_attempts(self):
        held = self.start_held(13, *WORDS, "trainer.shards=2")
        self.kill(held)
        self.ddprun("resume", "run", "launch.workers=2")
        self.assertRegex(self.replay("--step", "16", "--workers", "1"), "steps 11 to 16 .*" + SAME)
        self.assertRegex(self.replay("--step", "30"), SAME)

    def test_steps_before_a_resume_with_other_keys_and_variables_are_made_with_their_own(self):
        old = {"ATEN_CPU_CAPABILITY": "default"}
        self.ddprun(*WORDS, "trainer.shards=2", "launch.workers=1", "trainer.max_steps=12", env=old)
        self.ddprun("resume", "run", "launch.threads=2", env=old)  # tests it again
        self.assertRegex(self.replay("--step", "8"), SAME)
        self.ddprun("resume", "run", "launch.threads=1", "trainer.max_steps=24", "optimizer.lr=0.003")
        for step in (8, 12, 13, 22):
            with self.subTest(step=step):
                self.assertRegex(self.replay("--step", step), SAME)

    def test_where_the_bits_are_others_it_says_from_which_step_on_and_what_has_changed(self):
        self.ddprun(*WORDS, "launch.workers=1")
        file = self.folder / "run/digests.jsonl"
        text = file.read_text()
        old = digests(self.folder / "run")[14]
        file.write_text(text.replace(old, f"{int(old, 16) ^ 1:016x}"))
        self.assertIn("other bits after step 14, the first of 3 digests that differs", self.replay("--step", "16", code=1))
        environment = self.folder / "run/environment.json"
        environment.write_text(re.sub(r'(mlp.so",\s+"sha256": ")\w{8}', r"\g<1>00000000", environment.read_text()))
        self.assertRegex(self.replay("--step", "16", code=1), r"since the run, environment: the build of mlp.so is 0{8}\w{4} and \w{12} made twice")

    def test_what_cannot_be_made_again_is_refused(self):
        self.ddprun(*WORDS, "launch.workers=1", "trainer.max_steps=4")
        (self.folder / "notes.html").write_text("mine")
        for words, message in ((["--step", "9"], "--step 9: expected 1 to 4, the last step that "), (["--step", "0"], "--step 0: expected 1 to 4"),
                               (["--step", "2", "--page", "notes.html"], "notes.html exists and is not a page of a step of ddprun"),
                               (["--step", "2", "--page", "nowhere/s.html"], "there is no folder "),
                               (["--step", "2", "--out", "nowhere/s.json"], "there is no folder "),
                               (["--step", "2", "--out", "notes.html"], "notes.html exists already"),
                               (["--step", "2", "--without", "7,x"], "--without"),
                               (["--step", "2", "--workers", "0"], "--workers")):
            self.assertIn(message, self.ddprun("replay", "run", *words, code=2).err())
        self.assertIn("none", self.ddprun("replay", "none", "--step", "2", code=2).err())
        (self.folder / "run/digests.jsonl").unlink()
        self.assertIn("--step 2: expected 1 to 0", self.ddprun("replay", "run", "--step", "2", code=2).err())

    def test_a_signal_ends_it_with_what_it_has_started(self):
        self.ddprun(*WORDS, "launch.workers=1", "trainer.max_steps=2")
        for number, code in ((signal.SIGTERM, 75), (signal.SIGKILL, -signal.SIGKILL)):
            with self.subTest(signal=number.name):
                replay = self.start_held(1, "replay", "run", "--step", "2")
                replay.send(number)
                self.assertEqual(replay.wait(), code, replay.text())
                self.assert_nothing_left()


OWN_VAL = ("~dataset.val_fraction", "+dataset.val=[input.npy, target.npy]")  # so that a sample has the number of its row in the file


class Inside(UnsteadyTest, PageTest):
    """What a step is like from inside, of a network without dropout, so that a batch loses what its samples lose alone."""

    def page(self, step):
        sheet = data_of(self.folder / f"planted_step_{step}.html")["sheet"]
        samples, gradients = sheet["sections"]
        loss, norm, *without = sheet["tiles"]
        return {"loss": loss[1], "usual_loss": [float(number) for number in re.findall(r"\d[\d.e+-]*", loss[2])[:2]], "norm": norm[1],
                "samples": samples["samples"], "gradients": gradients["table"]["rows"], "odd": sheet.get("notice", {}).get("lines"),
                "without": without[0] if without else None}  # fmt: skip

    def test_samples_with_their_losses_and_what_the_step_is_without_the_worst(self):
        self.ddprun("e.yaml", "run.dir=run", *OWN_VAL)
        text = self.said("replay", "run", "--step", "7")
        shown = self.page(7)
        losses = [sample["loss"] for sample in shown["samples"]]
        self.assertEqual(len(losses), 32)
        self.assertEqual(losses, sorted(losses, reverse=True))
        self.assertAlmostEqual(sum(losses) / 32, shown["loss"], places=5)
        self.assertAlmostEqual(math.hypot(*(row[1] for row in shown["gradients"])), shown["norm"], places=5)
        self.assertEqual([row[0] for row in shown["gradients"]], ["hidden.weight", "hidden.bias", "output.weight", "output.bias"])
        worst = shown["samples"][0]
        self.assertEqual(worst["target"], str(self.targets[worst["id"]]))
        self.assertEqual(worst["input"].split(", ")[0], f"{self.inputs[worst['id'] * INPUTS]:.4g}")
        self.assertIn(f"the worst first: sample {worst['id']}: loss {worst['loss']:.5g} sample", text)
        self.assertIn(f"step 7: loss {shown['loss']:.5g} (", text.replace("\n", " "))
        self.said("replay", "run", "--step", "7", "--without", str(worst["id"]))
        without = self.page(7)["without"]
        self.assertEqual(without[0], f"Loss without #{worst['id']}")
        self.assertAlmostEqual(without[1], sum(losses[1:]) / 31, places=5)
        self.assertNotEqual(without[2], f"norm {shown['norm']:.5g}")
        if CHROMIUM:
            document = self.document(self.folder / "planted_step_7.html")
            for section in ("samples", "gradients"):
                self.assertRegex(document, f'<section[^>]* id="{section}"')
            self.assertIn(f"Loss without #{worst['id']}", document)
        absent = next(number for number in range(SAMPLES) if number not in [sample["id"] for sample in shown["samples"]])
        self.assertIn(f"--without {absent}: the batch of step 7 has no such sample",
                      self.ddprun("replay", "run", "--step", "7", "--without", str(absent), code=2).err())
        everything = ",".join(str(sample["id"]) for sample in shown["samples"])
        self.assertIn("no sample of the batch is left", self.ddprun("replay", "run", "--step", "7", "--without", everything, code=2).err())

    def test_a_poisoned_sample_is_the_worst_and_the_operator_is_named_that_first_gave_odd_numbers(self):
        self.ddprun("e.yaml", "run.dir=run", *OWN_VAL)
        self.said("replay", "run", "--step", "4")
        victim = self.page(4)["samples"][5]["id"]
        self.inputs[victim * INPUTS + 2] = 1e4
        self.write_data()
        self.ddprun("e.yaml", "run.dir=poisoned", *OWN_VAL)
        text = self.said("replay", "poisoned", "--step", "4", "--without", str(victim))
        shown = self.page(4)
        self.assertEqual(shown["samples"][0]["id"], victim)
        self.assertGreater(shown["loss"], 10 * shown["usual_loss"][1])
        self.assertLess(shown["without"][1], 2 * shown["usual_loss"][1])
        self.assertRegex(shown["odd"][0], r"^shard \d, operator \d+ of \d+, aten::addmm \(hidden.bias, hidden.weight\), gives numbers up to ")
        self.assertIn("first odd operator: shard ", text)

    def test_the_step_in_which_the_loss_was_lost_is_shown_before_there_is_a_row(self):
        failed = self.ddprun("e.yaml", "run.dir=run", "optimizer.lr=1e20", "trainer.log_every=50", "checkpoint.every=50st", code=1)
        step = re.search(r"`ddprun replay \S+/run --step (\d+)` shows the batch's samples with their losses", failed.err())[1]
        text = self.said("replay", "run", "--step", step)
        self.assertIn("the run has no digest of these steps to compare with", text)
        self.assertRegex(text, rf"in this step training ended: rank 0 failed: step {step}: the training loss is not finite")
        self.assertRegex(text, r"sample \d+: loss (nan|inf)")
        self.assertIn("expected 1 to 49, the last step that", self.ddprun("replay", "run", "--step", "50", code=2).err())

    def test_data_that_have_changed_since_are_among_what_may_have_given_other_bits(self):
        self.ddprun("e.yaml", "run.dir=run")
        self.inputs[0] += 1
        self.write_data()
        text = self.said("replay", "run", "--step", "4", code=1)
        self.assertRegex(text, r"other bits after step 4, .* since the run, data: account.digest is \w{12} and \w{12} made twice they are the same, ")

    def test_random_steps_of_random_runs_have_the_same_bits(self):
        draw = random.Random(11)
        for number in range(20 if NIGHTLY else 2):
            shards, workers = draw.choice([(0, 1), (0, 2), (2, 1), (2, 2)])
            words = draw.sample(["optimizer={plugin: adamw, lr: 0.01}", "trainer.precision=bf16", "trainer.ema_decay=0.9", "trainer.mixup=0.2",
                                 "schedule={name: cosine}", "trainer.clip_norm=0.5", "trainer.global_batch=20"], 3)
            run = f"run_{number}"
            self.ddprun("e.yaml", f"run.dir={run}", f"trainer.shards={shards}", f"launch.workers={workers}", *words)
            for step in draw.sample(range(1, 13), 5 if NIGHTLY else 1):
                with self.subTest(run=run, words=words, step=step, shards=shards, workers=workers):
                    again = ("--workers", str(3 - workers)) if shards else ()
                    self.assertRegex(self.said("replay", run, "--step", str(step), *again), SAME.replace("\n", ""))


if __name__ == "__main__":
    unittest.main()

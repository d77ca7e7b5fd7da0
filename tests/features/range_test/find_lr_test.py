# SPDX-License-Identifier: MIT
"""`ddprun find-lr`: the same curve and suggestion at any number of workers, in the terminal and the report, and a run of its own kind."""

import pathlib
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "end_to_end"))

from browser import CHROMIUM, PageTest, data_of  # noqa: E402
from command import SMALL, all_rows, checkpoint_steps, summary  # noqa: E402

FIND = ("find-lr", *SMALL, "model=mlp")
LINE = re.compile(r"^Suggestion: optimizer\.lr=(\S+), where the loss falls fastest$", re.M)


class FindLr(PageTest):
    def curve(self, run):
        return [(row["lr"], row["loss"]) for row in all_rows(self.folder / run) if row["split"] == "train"]

    def losses_at(self, lr):
        self.ddprun(*SMALL, "model=mlp", "trainer.max_steps=30", f"optimizer.lr={lr}", f"run.dir=at_{lr}")
        return self.curve(f"at_{lr}")[-1][1]

    def test_every_world_draws_the_same_curve_and_its_suggestion_trains(self):
        found = []
        for workers in (1, 2, 3):
            running = self.ddprun(*FIND, f"launch.workers={workers}", f"run.dir=run{workers}", "trainer.eval_every=2st",
                                  "schedule={name: cosine, end_lr: 0.001}", "trainer.ema_decay=0.9")
            for key in ("trainer.eval_every=2st", "trainer.ema_decay=0.9", "schedule={name: cosine, end_lr: 0.001}"):
                self.assertIn(f"{key}: has no effect: a range test has its own s", running.err())
            found.append(LINE.search(running.out())[1])
        alone, *others = (self.curve(f"run{workers}") for workers in (1, 2, 3))
        self.assertAlmostEqual(alone[0][0], 1e-7)
        for other in others:  # before it diverges, where rounding decides
            for (lr, loss), (other_lr, other_loss) in list(zip(alone, other))[:140]:
                self.assertAlmostEqual(lr, other_lr, places=12)
                self.assertAlmostEqual(loss, other_loss, places=4)
        self.assertEqual({row["split"] for row in all_rows(self.folder / "run2")}, {"train", "epoch"}, "nothing is evaluated")
        self.assertEqual(checkpoint_steps(self.folder / "run2"), [])
        self.assertEqual(found, found[:1] * 3)
        shown = data_of(self.folder / "run2/report.html")["runs"][0]["range_test"]
        self.assertEqual(shown["suggested"][0], found[0])
        self.assertEqual(len(shown["lr"]), len(shown["smoothed"]))
        if CHROMIUM:
            self.assertIn(f"optimizer.lr={found[0]}</code>, where", self.document(self.folder / "run2/report.html"))
        good, small = self.losses_at(found[0]), self.losses_at(float(found[0]) / 100)
        print(f"suggested {found[0]}: loss {good:.3f} after 30 steps, and {small:.3f} with a hundredth of it")
        self.assertLess(good, small - 0.2)

    def test_it_leaves_the_newest_run_alone_and_scales_all_groups_alike(self):
        self.ddprun(*SMALL, "model=mlp", "trainer.max_steps=1")
        newest = (self.folder / "outputs/digits/latest").resolve()
        running = self.ddprun(*FIND, "--steps", "40", "--from=1e-4", "--to=1", "schedule.lr_scaling=linear", "schedule.reference_batch=32",
                    "optimizer.groups=[{parameters: '*.bias', lr: 0.03}]", "optimizer.lr=0.01")
        self.assertEqual((self.folder / "outputs/digits/latest").resolve(), newest)
        run = self.folder / "outputs/digits/find_lr/latest"
        rows = [row for row in all_rows(run) if row["split"] == "train"]
        self.assertAlmostEqual(rows[0]["lr"], 2e-4)  # twice, as the experiment's schedule scales it
        self.assertAlmostEqual(data_of(run / "report.html")["runs"][0]["range_test"]["lr"][0], 1e-4)
        self.assertIn("change the other learning rates of the optimizer by the same factor", running.out())
        for row in rows:
            self.assertAlmostEqual(row["lr_1"] / row["lr"], 3)

    def test_a_loss_that_is_not_finite_is_an_end_and_no_suggestion_is_reported(self):
        for words, said, why in (
                (("--to=1e-6",), "does not fall by more than its noise", "all steps are done"),
                (("--from=2", "--to=20"), "begin with a smaller lr (--from)", "the loss diverges"),
                (("--from=1e20", "--to=1e30", "launch.workers=2"), "steps have a finite loss: begin with a smaller lr", "is not finite")):
            with self.subTest(why=why):
                run = f"run.dir={why.split()[-1]}"
                error = self.ddprun(*FIND, *words, "--steps=20", run, code=1).err()
                self.assertIn("no learning rate can be suggested: ", error)
                self.assertIn(said, error)
                self.assertIn(why, summary(self.folder / why.split()[-1])["stop_reason"])
        self.assertFalse((self.folder / "finite/nonfinite").exists())

    def test_a_stopped_one_has_the_curve_so_far_and_is_repeated(self):
        running = self.start_held(25, *FIND, "--steps=60", "run.dir=run")
        running.send(signal.SIGINT)
        running.gate.open()
        self.assertEqual(running.wait(), 75, running.text())
        self.assertIn("repeat it from its start with: ddprun resume", running.err())
        self.assertNotIn("checkpoint", running.err())
        self.assertLess(len(data_of(self.folder / "run/report.html")["runs"][0]["range_test"]["lr"]), 60)
        running = self.ddprun("resume", "run")
        self.assertTrue(LINE.search(running.out()))
        self.assertGreater(len(data_of(self.folder / "run/report.html")["runs"][0]["range_test"]["lr"]), 40)

    def test_mistakes_are_reported(self):
        for words, said in ((("--from=1", "--to=0.1"), "--from 1 --to 0.1: expected two learning rates above 0"),
                            (("--from=0",), "expected two learning rates above 0"),
                            (("--steps=9",), "--steps 9: expected at least 10"),
                            (("checkpoint.resume=run",), "set pretrained.file"),
                            (("schedule.kind=cosine",), "schedule.kind: unknown key"),
                            (("optimizer.lr=0",), "optimizer.lr is 0")):
            with self.subTest(said=said):
                self.assertIn(said, self.ddprun(*FIND, *words, code=2).err())


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""A language model: samples of symbols, a loss of the model's own, a perplexity that stops the run."""

import json
import math
import unittest

from command import CommandTest, all_rows, csv_rows, summary

SMALL = ["experiments/text.yaml", "dataset.size=12000", "dataset.context=16", "model.width=32", "trainer.max_epochs=3",
         "trainer.global_batch=64", "trainer.log_every=1", "schedule.warmup=3st", "launch.threads=1",
         "launch.device=cpu"]


class Text(CommandTest):
    def test_one_worker_and_two_train_evaluate_and_predict_the_same(self):
        one = all_rows(self.assert_worlds_alike(SMALL, (2,), delta=1e-3))
        self.assertGreater(summary(self.folder / "alone")["model_flops_per_second"], 0)
        self.assertNotIn("mfu", summary(self.folder / "alone"), "without a peak")
        self.assertLess(one[-1]["loss"], one[0]["loss"] - 0.5)
        end = summary(self.folder / "alone")
        self.assertAlmostEqual(end["metrics"]["test/perplexity"], math.exp(end["metrics"]["test/loss"]), places=4)
        self.assertEqual(min(row["perplexity"] for row in one if row["split"] == "val"), end["best"]["val/perplexity"])
        self.assertEqual(end["test_total"], 1199 // 16 * 16)  # characters, in windows with one more after each

        found = json.loads(self.ddprun("evaluate", "alone", "--json", "launch.workers=2").out())
        self.assertEqual(found["test_correct"], end["test_correct"])
        self.assertAlmostEqual(found["metrics"]["test/perplexity"], end["metrics"]["test/perplexity"], places=4)

        self.ddprun("predict", "alone", "--out", "p.csv", "launch.workers=2")
        rows = csv_rows(self.folder / "p.csv")
        self.assertEqual([row["index"] for row in rows], [str(i) for i in range(1199 // 16)])
        scores = [{name[6:]: float(value) for name, value in row.items() if name.startswith("score_")} for row in rows]
        self.assertIn("space", scores[0])
        for row, score in zip(rows, scores):
            self.assertAlmostEqual(sum(score.values()), 1, places=4)
            self.assertEqual(score[row["guess"]], max(score.values()))
            self.assertIn(row["truth"], score)

    def test_tokens_and_utilisation_are_those_of_the_model_whatever_the_workers(self):
        context, width, layers = 16, 32, 2
        for name, words in {"one": ["launch.workers=1"], "two": ["launch.workers=2"],
                            "shards": ["launch.workers=2", "trainer.shards=4"],
                            "again": ["launch.workers=1", "trainer.recompute=all"],
                            "small": ["launch.workers=1", "trainer.micro_batch=8"]}.items():
            with self.subTest(name):
                out = self.ddprun(*SMALL, *words, "trainer.peak_tflops=0.5", f"run.dir={name}").out()
                end, workers = summary(self.folder / name), int(words[0][-1])
                symbols = json.loads((self.folder / name / "data.json").read_text())["classes"]
                numbers = 12 * layers * width**2 + symbols * width  # those of its matrices: 6N + 12LHQT for each token
                per_token = 6 * numbers + 12 * layers * width * context
                self.assertAlmostEqual(end["tokens_per_second"] / end["samples_per_second"], context, places=6)
                self.assertAlmostEqual(end["model_flops_per_second"] / end["tokens_per_second"] / per_token, 1, places=6)
                self.assertAlmostEqual(end["mfu"] / (end["model_flops_per_second"] / (0.5e12 * workers)), 1, places=6)
                self.assertRegex(out, r"throughput +[\d,]+ tokens/s, [\d,]+ samples/s\n")
                self.assertRegex(out, r"model FLOP/s +[\d.]+ GFLOP/s.*; MFU [\d.]+ %\n")
                for row in all_rows(self.folder / name):
                    self.assertEqual("mfu" in row, row["split"] in ("train", "epoch"), row)
                    if "mfu" in row:
                        self.assertAlmostEqual(row["tokens_per_second"] / row["samples_per_second"], context, places=6)
                        self.assertAlmostEqual(row["mfu"] * 0.5e12 * workers / row["model_flops_per_second"], 1, places=6)

    def test_an_objective_that_nobody_asks_for_is_reported(self):
        short = ["trainer.max_steps=2", "trainer.precision=bf16"]
        quiet = self.ddprun(*SMALL, *short, "run.dir=quiet")
        self.assertNotIn("objective", quiet.err())
        reported = self.ddprun(*SMALL, *short, "objective=mse", "run.dir=reported")
        self.assertIn("objective: the model transformer computes its own loss", reported.err())
        asked = self.ddprun("experiments/digits.yaml", "dataset.train_size=64", "model=mlp", "trainer.max_steps=1",
                            "objective={name: cross_entropy, label_smoothing: 0.1}", "launch.device=cpu",
                            "run.dir=asked")
        self.assertNotIn("loss of its own", asked.err())

    def test_data_that_are_no_texts_are_reported(self):
        (self.folder / "mine.txt").write_bytes("caf\u00e9".encode("latin1"))
        message = self.assert_refused(*SMALL, "~dataset.size", "dataset.file=mine.txt")
        self.assertIn("mine.txt: byte 3, 0xE9 in line 1, is not UTF-8", message)
        running = self.ddprun("experiments/digits.yaml", "model=transformer", "dataset.train_size=64",
                              "launch.device=cpu", code=2)
        self.assertIn("transformer expects texts", running.err())
        self.assertIn("samples of shape [1, 28, 28] in 10 classes", running.err())


if __name__ == "__main__":
    unittest.main()

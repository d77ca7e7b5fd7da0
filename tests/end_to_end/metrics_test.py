# SPDX-License-Identifier: MIT
"""Metrics that are not means over samples: followed, shown, and the same at any number of workers."""

import json

from command import SMALL, CommandTest, all_rows, main, summary

OF_CLASSES = ["accuracy", "f1", "f1_per_class", "precision_micro", "mcc", "balanced_accuracy", "mean_iou", "auroc", "average_precision"]
SETTINGS = [word for word in SMALL if word != "~early_stopping"]
WORDS = [*SETTINGS, "model=mlp", f"objective.metrics=[{', '.join(OF_CLASSES)}]"]


class Metrics(CommandTest):
    def test_a_run_stops_by_its_f1_and_every_world_measures_it_alike(self):
        target = 0.7
        running = self.ddprun(*WORDS, "trainer.max_epochs=20", "optimizer.lr=0.01", "early_stopping.hold=1",
                              "early_stopping.monitor=val/f1", f"early_stopping.target={target}", "checkpoint.monitor=val/f1", "launch.workers=2", "run.dir=run")
        end = summary(self.folder / "run")
        self.assertEqual(end["status"], "stopped_early")
        self.assertIn(f"val/f1 reached its target of {target}", end["stop_reason"])
        followed = [row["f1"] for row in all_rows(self.folder / "run") if row["split"] == "val"]
        self.assertTrue(max(followed[:-1], default=0) < target <= followed[-1], followed)
        self.assertEqual(end["best_step"], end["steps"])
        self.look_at_the_console(running.out())
        found = [json.loads(self.ddprun("evaluate", "run", "--json", f"launch.workers={workers}").out())["metrics"]
                 for workers in (1, 2, 3)]
        for split in ("val", "test"):
            names = [f"{split}/{name}" for name in OF_CLASSES if not name.endswith("_per_class")]
            for name in [*names, *(f"{split}/f1/{digit}" for digit in range(10))]:
                self.assertEqual({metrics[name] for metrics in found}, {found[0][name]}, name)
        self.assertEqual(found[0]["val/f1"], followed[-1])
        self.assertAlmostEqual(found[0]["val/precision_micro"], found[0]["val/accuracy"])
        self.assertAlmostEqual(sum(found[0][f"val/f1/{digit}"] for digit in range(10)) / 10, found[0]["val/f1"])
        self.assertIn("test/f1/9", self.ddprun("evaluate", "run").out())

    def look_at_the_console(self, text):
        """A table without the ten classes, which are on the page that the summary names."""
        table, end = text.split("Training Summary")
        self.assertIn("val f1", table)
        self.assertNotIn("f1/", text)
        self.assertRegex(end, r"tables +metrics by class: .*run/report\.html\n")

    def refusal(self, *words, given=WORDS):
        running = self.ddprun("check", *given, *words, code=2)
        self.assertEqual(len(running.err().splitlines()), 1, running.err())
        return running.err()

    def test_a_misspelt_monitor_is_found_before_the_first_step(self):
        for section in ("early_stopping", "checkpoint", "schedule"):
            words = ["schedule.name=plateau"] if section == "schedule" else []
            said = self.refusal(*words, f"{section}.monitor=val/f2")
            self.assertIn(f"{section}.monitor: no metric is called val/f2; did you mean val/f1?", said)
        self.assertIn("no metric is called train/f1", self.refusal("checkpoint.monitor=train/f1"))
        said = self.refusal("checkpoint.monitor=val/f1/11")  # which classes there are is known from the data
        self.assertIn("no metric is called val/f1/11; did you mean val/f1/1?", said)

    def test_a_metric_that_there_is_not_is_reported_in_one_line(self):
        for words, reason in (
                ("objective.metrics=[f1_macro]", 'cross_entropy has no metric "f1_macro"; did you mean f1?'),
                ("objective={name: mse, metrics: [mean_iou]}", 'mse has no metric "mean_iou", which is one of classes: cross_entropy'),
                ("objective={name: mse, metrics: [auroc]}", 'mse has no metric "auroc", which is one of classes'),
                ("objective.metrics=[mae]", 'cross_entropy has no metric "mae", which is one of values: mse and l1 have it')):
            self.assertIn(reason, self.refusal(words, given=[*SETTINGS, "model=mlp", "~early_stopping"]))


if __name__ == "__main__":
    main()

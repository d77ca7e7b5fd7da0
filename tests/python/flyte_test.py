# SPDX-License-Identifier: MIT
"""docs/flyte.md's task and workflow, run by flytekit on this machine: its outputs are the run's, and a retry resumes."""

import json
import os
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "sdk/python"), str(ROOT / "tests/end_to_end")]

from browser import report_in  # noqa: E402
from command import CommandTest, Gate, all_rows, summary  # noqa: E402

# Its network and recipe on digits that ddprun draws itself.
EXPERIMENT = """
defaults: [experiments/mnist_flyte]
dataset: {plugin: digits, train_size: 512, val_size: 100, test_size: 100}
trainer: {max_steps: 4}
launch: {device: cpu, threads: 1}
"""
# The deck is kept beside; the weights are read where torch is.
USE = """
import json, sys
import flytekit
import mnist_task

decks = []
mnist_task.Deck = lambda name, html: decks.append((name, html))
hp = mnist_task.Hyperparameters(epochs=2, batch_size=64)
accuracies, model = mnist_task.mnist_workflow(hp=hp, experiment="small.yaml", folder=sys.argv[1])
with open("result.json", "w") as file:
    json.dump([accuracies, str(model), decks], file)
"""


class Task(CommandTest):
    def setUp(self):
        super().setUp()
        text = (ROOT / "docs/flyte.md").read_text()
        (self.folder / "mnist_task.py").write_text(re.search(r"```python\n(.*?)```", text, re.S)[1])
        (self.folder / "small.yaml").write_text(EXPERIMENT)
        (self.folder / "use.py").write_text(USE)

    def start_task(self, folder, env=None):
        env = {"PYTHONPATH": str(ROOT / "sdk/python"), "SANDBOX": "1"} | (env or {})
        return self.start_program(sys.executable, "-B", "use.py", folder, env=env)

    def result(self, running):
        self.assertEqual(running.wait(200), 0, running.text())
        return json.loads((self.folder / "result.json").read_text())

    def test_gives_the_accuracies_the_weights_and_the_report(self):
        accuracies, model, [[name, page]] = self.result(self.start_task("run"))
        measured = [row["accuracy"] for row in all_rows(self.folder / "run") if row["split"] == "val"]
        self.assertEqual(accuracies, measured)
        self.assertEqual(accuracies, summary(self.folder / "run")["history"]["val/accuracy"])
        self.assertGreater(pathlib.Path(model).stat().st_size, 100_000)
        self.assertEqual((name, report_in(page)["runs"][0]["status"]), ("report", "completed"))

    def test_a_second_try_resumes_the_first_one(self):
        gate = Gate(self, 2)
        first = self.start_task("run", gate.env)
        gate.wait(first)
        for pid in [first.pid, *self.processes()]:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        first.wait()
        self.assert_nothing_left()
        accuracies, _, _ = self.result(self.start_task("run"))
        ended = summary(self.folder / "run")
        self.assertEqual((ended["attempt"], ended["steps"], len(accuracies)), (1, 4, len(ended["history"]["step"])))


if __name__ == "__main__":
    unittest.main()

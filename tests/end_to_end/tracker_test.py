# SPDX-License-Identifier: MIT
"""A logger that is a tracker's name: the run sends itself there through tools/follow. The tracker's package is the test's own here."""

import json
import pathlib
import shlex
import sys

from command import SMALL, CommandTest, all_rows, main, summary

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/follow"
WORDS = [*SMALL, "model=mlp", "run.dir=run"]
PACKAGE = """
import json, os, types
class Error(Exception): pass
errors = types.SimpleNamespace(Error=Error)
Settings = type("Settings", (), {"model_fields": {}})
class Table:
    def __init__(self, **content): pass
class Run:
    name = project = entity = "x"
    offline, summary = False, {}
    @property
    def starting_step(self):  # counted by the server
        with open(os.environ["SENT"], "a+") as file:
            file.seek(0)
            return sum('"exit"' not in line for line in file)
    def define_metric(self, *_, **__): pass
    def log(self, row, step, commit):
        with open(os.environ["SENT"], "a") as file:
            file.write(json.dumps(row, default=str) + "\\n")
    def finish(self, exit_code):
        self.log({"exit": exit_code, "status": self.summary["status"]}, 0, True)
def init(**options):
    if os.path.exists(os.environ["AWAY"]):
        raise Error("no route to the tracker")
    print("it greets")
    return Run()
"""


class Tracker(CommandTest):
    def setUp(self):
        super().setUp()
        (self.folder / "wandb.py").write_text(PACKAGE)
        self.run_folder, self.away = self.folder / "run", self.folder / "away"

    def environment(self, changes=None):
        ours = {"PYTHONPATH": str(self.folder), "SENT": str(self.folder / "sent"), "AWAY": str(self.away), "WANDB_API_KEY": "key"}
        return super().environment(ours | (changes or {}))

    def assert_all_arrived(self):
        sent = [json.loads(line) for line in (self.folder / "sent").read_text().splitlines()]
        losses = sorted([name, row["step"]] for row in sent for name in row if name.endswith("/loss"))
        expected = {(f"{row['split']}/loss", row["step"]) for row in all_rows(self.run_folder, measured=True) if "loss" in row}
        self.assertEqual(losses, sorted(map(list, expected)))
        self.assertEqual(sent[-1], {"exit": 0, "status": "completed"})

    def test_a_run_of_two_nodes_arrives_once_and_leaves_nothing(self):
        nodes = self.start_nodes(2, 1, *WORDS, "loggers=[console, wandb]")
        for node in nodes:
            self.assertEqual(node.wait(), 0, node.text())
        self.assert_all_arrived()
        self.assertNotIn("unsent", summary(self.run_folder))
        self.assertIn("it greets", (self.run_folder / "logs/wandb.log").read_text())
        self.assertNotIn("it greets", nodes[0].text())
        self.assert_nothing_left()

    def test_a_follower_that_was_killed_continues_where_the_tracker_says(self):
        self.ddprun(*WORDS, "+loggers=wandb")
        self.assert_all_arrived()
        journal, sent = self.run_folder / "wandb/follow.jsonl", self.folder / "sent"
        for file, last in ((journal, '"ended"'), (sent, '"exit"')):  # as if it had died before the last five arrived
            lines = [line for line in file.read_text().splitlines() if last not in line]
            file.write_text("".join(f"{line}\n" for line in (lines if file == journal else lines[:-5])))
        later = self.start_program(sys.executable, "-B", TOOL, "--to", "wandb", "run")
        self.assertEqual(later.wait(), 0, later.text())
        self.assert_all_arrived()

    def test_one_that_is_away_until_the_end_is_reported_with_the_line_that_sends_the_rest(self):
        self.away.touch()
        running = self.ddprun(*WORDS, "+loggers=wandb")
        unsent = summary(self.run_folder)["unsent"]["wandb"]
        self.assertEqual(running.err().count("not sent: no route to the tracker"), 1, running.err())
        self.assertIn(f"send the rest with: {unsent['command']}", running.err())
        self.assertIn("no route to the tracker", unsent["problem"])
        self.assertIn("wandb did not have all of the run at its end", (self.run_folder / "report.html").read_text())
        self.away.unlink()
        later = self.start_program(*shlex.split(unsent["command"]))
        self.assertEqual(later.wait(), 0, later.text())
        self.assert_all_arrived()

    def test_one_whose_package_is_missing_or_that_gets_an_unknown_option_is_refused(self):
        place = r"loggers\[3\]: plugin wandb: "
        self.assertRegex(self.assert_refused(*WORDS, "+loggers={plugin: wandb, uri: p}"), f"{place}--uri means nothing to wandb")
        self.assertIn("did you mean wandb?", self.assert_refused(*WORDS, "+loggers=wandbb"))
        (self.folder / "wandb.py").unlink()
        self.assertRegex(self.assert_refused(*WORDS, "+loggers=wandb"), f"{place}.*pip install wandb pillow")

    def test_one_that_there_is_not_is_refused_with_those_that_there_are(self):
        self.assertIn("jsonl, mlflow, tensorboard, wandb", self.assert_refused(*WORDS, "+loggers=comet"))
        self.assertIn('expected mlflow | wandb, found "comet"', self.assert_refused(*WORDS, "+loggers={plugin: follow, to: comet}"))
        follower = self.start_program(sys.executable, "-B", TOOL, "--to", "comet", "run")
        self.assertEqual(follower.wait(), 2, follower.text())
        self.assertIn("there is no tracker comet; known: mlflow, wandb. For any other, metrics.jsonl", follower.err())


if __name__ == "__main__":
    main()

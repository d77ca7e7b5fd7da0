# SPDX-License-Identifier: MIT
"""A logger that is a tracker's name: the run sends itself there through tools/follow. The tracker's package is the test's own here."""

import json
import shlex

from command import SMALL, CommandTest, all_rows, main, summary

WORDS = [*SMALL, "model=mlp", "run.dir=run"]
PACKAGE = """
import json, os
class Live:
    def __init__(self, **options):
        if os.path.exists(os.environ["AWAY"]):
            raise OSError("no route to the tracker")
    def log_params(self, values):
        print("it greets")
    def log_metric(self, name, value, plot=True):
        with open(os.environ["SENT"], "a") as file:
            file.write(json.dumps([name, getattr(self, "step", None), value]) + "\\n")
    def log_image(self, name, file): pass
    def make_summary(self): pass
    def end(self): pass
"""


class Tracker(CommandTest):
    def setUp(self):
        super().setUp()
        (self.folder / "dvclive.py").write_text(PACKAGE)
        self.run_folder, self.away = self.folder / "run", self.folder / "away"

    def environment(self, changes=None):
        ours = {"PYTHONPATH": str(self.folder), "SENT": str(self.folder / "sent"), "AWAY": str(self.folder / "away")}
        return super().environment(ours | (changes or {}))

    def assert_all_arrived(self):
        sent = [json.loads(line) for line in (self.folder / "sent").read_text().splitlines()]
        losses = sorted(one[:2] for one in sent if one[0].endswith("/loss"))
        expected = {(f"{row['split']}/loss", row["step"]) for row in all_rows(self.run_folder, measured=True) if "loss" in row}
        self.assertEqual(losses, sorted(map(list, expected)))
        self.assertIn(["status", None, "completed"], [[one[0], None, one[2]] for one in sent])

    def test_a_run_of_two_nodes_arrives_once_and_leaves_nothing(self):
        nodes = self.start_nodes(2, 1, *WORDS, "loggers=[console, dvclive]")
        for node in nodes:
            self.assertEqual(node.wait(), 0, node.text())
        self.assert_all_arrived()
        self.assertNotIn("unsent", summary(self.run_folder))
        self.assertIn("it greets", (self.run_folder / "logs/dvclive.log").read_text())
        self.assertNotIn("it greets", nodes[0].text())
        self.assert_nothing_left()

    def test_one_that_is_away_until_the_end_is_reported_with_the_line_that_sends_the_rest(self):
        self.away.touch()
        running = self.ddprun(*WORDS, "+loggers=dvclive")
        unsent = summary(self.run_folder)["unsent"]["dvclive"]
        self.assertEqual(running.err().count("not sent: no route to the tracker"), 1, running.err())
        self.assertIn(f"send the rest with: {unsent['command']}", running.err())
        self.assertIn("no route to the tracker", unsent["problem"])
        self.assertIn("dvclive did not have all of the run at its end", (self.run_folder / "report.html").read_text())
        self.away.unlink()
        later = self.start_program(*shlex.split(unsent["command"]))
        self.assertEqual(later.wait(), 0, later.text())
        self.assert_all_arrived()

    def test_one_whose_package_is_missing_or_that_gets_an_unknown_option_is_refused(self):
        (self.folder / "dvclive.py").unlink()
        self.assertRegex(self.assert_refused(*WORDS, "+loggers=dvclive"), r"loggers\[3\]: plugin dvclive: .*pip install dvclive")
        self.assertIn("loggers[3]: plugin dvclive: --project means nothing to dvclive",
                      self.assert_refused(*WORDS, "+loggers={plugin: dvclive, project: p}"))
        self.assertIn("did you mean dvclive?", self.assert_refused(*WORDS, "+loggers=dvcliv"))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""What a run tells of itself beside its metrics: in events, in a trace."""

import collections
import json
import signal
import unittest

from command import SMALL, CommandTest

WORDS = [*SMALL, "model=mlp"]


def events(run):
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def kinds(run):
    return [event["kind"] for event in events(run)]


class Events(CommandTest):
    def test_tell_of_attempts_checkpoints_and_the_end(self):
        run = self.start_held(12, *WORDS, "run.dir=run")
        run.send(signal.SIGTERM)
        self.assertEqual(run.wait(), 75)
        folder = self.folder / "run"
        self.assertEqual(kinds(folder)[0], "attempt")
        self.assertEqual(events(folder)[-1]["text"], "preempted: asked to stop; saved and resumable")
        step = json.loads((folder / "summary.json").read_text())["steps"]
        self.ddprun("resume", "run")
        second = [event for event in events(folder) if event["attempt"] == 1]
        self.assertEqual([second[0]["kind"], second[0]["text"]], ["attempt", f"1 worker on 1 node, from step_{step:08d}"])
        self.assertEqual([second[1]["kind"], second[1]["step"]], ["resumed", step])
        self.assertEqual(second[-1]["kind"], "end")
        self.assertIn("checkpoint", [event["kind"] for event in second])

    def test_tell_of_a_failure_and_the_restart(self):
        self.ddprun(*WORDS, "run.dir=run", "launch.max_restarts=1", "launch.restart_seconds=0", "launch.workers=2",
                    env={"DDPRUN_FAULT": "kill:computing:12:1"})
        folder = self.folder / "run"
        counted = collections.Counter(kinds(folder))
        self.assertEqual([counted["attempt"], counted["failure"], counted["end"]], [2, 1, 1])
        failure = next(event for event in events(folder) if event["kind"] == "failure")
        self.assertIn("rank 1", failure["text"])


class Profile(CommandTest):
    def test_is_a_trace_of_the_steps_that_were_asked_for(self):
        self.ddprun(*WORDS, "launch.workers=2", "+profile={steps: 5..7}", "run.dir=run")
        for rank in range(2):
            trace = json.loads((self.folder / f"run/profile/rank_{rank}_steps_5_7.json").read_text())
            phases = collections.Counter(event["name"] for event in trace["traceEvents"]
                                         if event.get("cat") == "user_annotation")
            for phase in ("data", "forward", "backward", "optimizer"):
                self.assertEqual(phases[phase], 3, phase)

    def test_of_a_run_that_ends_before_is_written_as_far_as_it_went(self):
        self.ddprun(*WORDS, "+profile={steps: 18..40}", "run.dir=run")
        self.assertTrue((self.folder / "run/profile/rank_0_steps_18_20.json").exists())

    def test_changes_nothing_in_what_is_learned(self):
        self.ddprun(*WORDS, "run.dir=plain")
        self.ddprun(*WORDS, "+profile={steps: 3..12}", "+histograms.every=2st", "run.dir=traced")
        last = [json.loads((self.folder / name / "summary.json").read_text())["metrics"] for name in ("plain", "traced")]
        self.assertEqual(*last)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Whatever hook of whatever plugin fails, and however: the report says whose it is and where the experiment names it.

Each hook throws, nightly in each of several worlds; the other ways to fail are tried with some.
"""

import dataclasses
import json
import pathlib
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))

from command import DDPRUN, NIGHTLY, CommandTest, differences, summary  # noqa: E402

EXPERIMENT = f"""\
plugin_path: [{DDPRUN.parent.parent}/tests/fault_plugins]
model: brittle_model
dataset: brittle_dataset
optimizer: brittle_optimizer
objective: {{name: brittle_objective}}
callbacks: [brittle_callback]
loggers: [jsonl, brittle_logger]
predictions: {{num_batches_to_log: 1, log_images_per_batch: 2}}
checkpoint: {{every: 2st}}
trainer: {{max_epochs: 2, global_batch: 8, log_every: 2, prefetch_threads: 1}}
launch: {{device: cpu, threads: 1, max_restarts: 1, restart_seconds: 0.05}}
"""
PLACES = {section: f"brittle.yaml:{line}:{column}: {path}: plugin brittle_{section}: "
          for section, line, column, path in (("model", 2, 8, "model"), ("dataset", 3, 10, "dataset"),
                                              ("optimizer", 4, 12, "optimizer"), ("objective", 5, 19, "objective"),
                                              ("callback", 6, 13, "callbacks[0]"), ("logger", 7, 18, "loggers[1]"))}

# What nobody but rank 0 calls, or the launcher; the call that fails, where it is not the fifth.
OF_LOGGERS = ("logger.start", "logger.metrics", "logger.predictions", "logger.flush", "logger.finish")
OF_RANK_0 = ("dataset.prepare", "dataset.to_image", "optimizer.state", "objective.scores", "callback.state", *OF_LOGGERS)
CALLS = {"model.prepare": 1, "model.initialize": 1, "dataset.prepare": 1, "dataset.start": 1, "dataset.spec": 1,
         "dataset.to_image": 2, "optimizer.start": 1, "optimizer.state": 2, "objective.prepare": 1, "objective.scores": 1, "callback.start": 1,
         "callback.after_evaluation": 1, "callback.finish": 1, "callback.state": 2, "logger.start": 1, "logger.metrics": 3,
         "logger.predictions": 1, "logger.flush": 2, "logger.finish": 1}
HOOKS = ("model.prepare", "model.initialize", "model.forward", "model.step", "dataset.prepare", "dataset.start", "dataset.spec",
         "dataset.get", "dataset.augment", "dataset.to_image", "optimizer.start", "optimizer.step",
         "optimizer.state", "objective.prepare", "objective.loss", "objective.metrics", "objective.scores", "callback.start",
         "callback.after_step", "callback.after_evaluation", "callback.state", "callback.finish", *OF_LOGGERS)
CALLED_AS = {"model.forward": "(step|forward)", "optimizer.step": "step(_unless)?"}  # the default of the one calls the other
WORLDS = ((1, 2), (1, 1), (2, 1), (2, 2)) if NIGHTLY else ((1, 2), (1, 1))  # nodes, workers on each
# A hook, how it fails, what follows its place in the report, the exit code, and whether the run is restarted.
WAYS = (("model.step", "mistake", "an input that is wrong", 1, False),
        ("model.prepare", "mistake", "an input that is wrong", 2, False),
        ("objective.loss", "odd", r"loss\(\) threw: something that is not a std::exception", 0, True),
        ("model.step", "segv", r"in step\(\): killed by SIGSEGV", 0, True),
        ("dataset.get", "abort", r"in get\(\): killed by SIGABRT", 0, True),
        ("optimizer.state", "exit", r"in state\(\): exit\(\) was called, before the work was done", 0, True),
        ("callback.after_step", "_exit", r"in after_step\(\): _exit\(\) was called, before the work was done", 0, True),
        ("logger.metrics", "segv", r"in metrics\(\): killed by SIGSEGV", 0, True),
        ("dataset.prepare", "segv", r"ddprun: SIGSEGV in prepare\(\) of dataset; the calls that led there:", -signal.SIGSEGV, False),
        ("dataset.prepare", "exit", r"ddprun: exit\(\) was called in prepare\(\) of dataset", 1, False),
        ("dataset.prepare", "_exit", r"ddprun: _exit\(\) was called in prepare\(\) of dataset", 1, False))


@dataclasses.dataclass(frozen=True)
class Fault:
    hook: str
    way: str
    nodes: int
    workers: int
    attempt: int = 0

    @property
    def world_size(self):
        return self.nodes * self.workers

    @property
    def section(self):
        return self.hook.partition(".")[0]

    @property
    def variable(self):
        rank = 0 if self.hook in OF_RANK_0 else self.world_size - 1
        return f"{self.hook}:{CALLS.get(self.hook, 5)}:{rank}:{self.attempt}:{self.way}"

    def __str__(self):
        return f"{self.variable} on {self.nodes} x {self.workers}"


def thrown(hook):
    """What a report says of a hook that throws, the exit code, and whether the run is restarted."""
    section, _, called = hook.partition(".")
    said = CALLED_AS.get(hook, called) + r"\(\) threw: a hook that is broken"
    if section == "logger":  # what it does not get is missing
        return f"warning: logger brittle_logger failed and is disabled: {said}", 1, False
    in_launcher = hook == "dataset.prepare"
    return re.escape(PLACES[section]) + said, 2 if in_launcher else 0, not in_launcher


class Hooks(CommandTest):
    def setUp(self):
        super().setUp()
        (self.folder / "brittle.yaml").write_text(EXPERIMENT)

    def reference(self, world_size):
        return self.undisturbed("brittle.yaml", f"launch.workers={world_size}")

    def launch(self, fault, run, *more):
        return self.start_nodes(fault.nodes, fault.workers, "brittle.yaml", f"run.dir={run}", *more,
                                env={"BRITTLE": fault.variable})

    def check(self, fault, said, code, restarts):
        print(fault, file=sys.stderr, flush=True)
        run = self.folder / re.sub(r"\W+", "_", str(fault))
        launchers = self.launch(fault, run)
        codes = [launcher.wait(60) for launcher in launchers]
        text = "\n".join(launcher.text() for launcher in launchers)
        self.assert_nothing_left()
        self.assertEqual(codes[0], code, text)
        leader = launchers[0].err()
        self.assertRegex(leader, said)
        self.assertEqual("restart 1 of 1" in leader, restarts, text)
        if codes[0] == 0:
            self.assertEqual(differences(run, self.reference(fault.world_size)), {}, text)
            self.assertEqual(summary(run)["status"], "completed")

    def test_each_hook(self):
        for number, hook in enumerate(HOOKS):
            worlds = WORLDS if NIGHTLY else WORLDS[number % len(WORLDS):][:1]
            for world in [(1, 1)] if hook == "dataset.prepare" else worlds:  # of the launcher
                with self.subTest(hook=hook, world=world):
                    self.check(Fault(hook, "throw", *world), *thrown(hook))

    def test_each_way_to_fail(self):
        for number, (hook, way, said, *end) in enumerate(WAYS):
            with self.subTest(hook=hook, way=way):
                place = "" if said.startswith("ddprun: ") else re.escape(PLACES[hook.partition(".")[0]])
                self.check(Fault(hook, way, 1, 1 if hook == "dataset.prepare" else 1 + number % 2), place + said, *end)

    def test_a_hook_that_hangs_is_distinguished_from_the_ranks_that_wait_for_it(self):
        for number, world in enumerate(((1, 2), (2, 1))):
            fault = Fault("model.step", "hang", *world)
            with self.subTest(fault=str(fault)):
                launchers = self.launch(fault, self.folder / f"run_{number}", "launch.hang_seconds=4")
                codes = [launcher.wait(60) for launcher in launchers]
                text = "\n".join(launcher.text() for launcher in launchers)
                self.assertEqual(codes, [0] * fault.nodes, text)
                place = re.escape(PLACES["model"].removesuffix(": "))
                self.assertRegex(launchers[0].err(), rf"rank 1\b.* has hung for \d+ s at step \d+, computing, in step\(\) of {place}")
                self.assertRegex(launchers[0].err(), r"rank 0 at step \d+, computing, waits for the others: ")
                self.assertIn("stalled in step() of model; the calls that led there:\n", text)
                self.assertIn("restart 1 of 1", launchers[0].err())
                logs = self.folder / f"run_{number}/logs"
                self.assertIn(f"collectives: {logs}/under_way_rank_*.json", launchers[0].err())
                waiting, working = (json.loads((logs / f"under_way_rank_{rank}.json").read_text()) for rank in (0, 1))
                self.assertEqual([entry["profiling_name"] for entry in waiting["entries"]], ["gloo:all_reduce"])
                self.assertEqual(working["entries"], [])
                begun = [int(record["pg_status"]["0"]["last_enqueued_collective"]) for record in (waiting, working)]
                self.assertEqual(begun[0], begun[1] + 1)

    def test_the_hook_of_a_resumed_run(self):
        fault = Fault("optimizer.load_state", "throw", 1, 2, attempt=1)
        first = {"BRITTLE": Fault("model.step", "throw", 1, 2).variable}
        self.ddprun("brittle.yaml", "launch.workers=2", "launch.max_restarts=0", "run.dir=run", code=1, env=first)
        environment = {"BRITTLE": fault.variable.replace(":5:", ":1:")}
        resumed = self.ddprun("resume", "run", "launch.workers=2", "launch.max_restarts=1", env=environment)
        self.assertRegex(resumed.err(), r"optimizer: plugin brittle_optimizer: load_state\(\) threw: a hook that is broken")
        self.assertEqual(differences(self.folder / "run", self.reference(2)), {})

    def test_weights_from_a_checkpoint_are_not_initialized(self):
        def broken(hook, attempt):
            return {"BRITTLE": Fault(hook, "throw", 1, 1, attempt).variable}

        once = ["launch.workers=1", "launch.max_restarts=0"]
        self.ddprun("brittle.yaml", *once, "trainer.max_epochs=1", "run.dir=run")
        self.ddprun("resume", "run", *once, "trainer.max_epochs=2", code=1, env=broken("model.prepare", 1))
        self.ddprun("resume", "run", *once, "trainer.max_epochs=2", env=broken("model.initialize", 2))
        self.assertEqual(summary(self.folder / "run")["attempt"], 2)
        self.ddprun("brittle.yaml", *once, "pretrained.file=run", "run.dir=tuned", env=broken("model.initialize", 0))
        self.ddprun("brittle.yaml", *once, "run.dir=fresh", code=1, env=broken("model.initialize", 0))


if __name__ == "__main__":
    unittest.main()

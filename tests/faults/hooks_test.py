# SPDX-License-Identifier: MIT
"""Whatever hook of whatever plugin fails, and however: the report says whose it is and where the experiment names it.

Runs each hook with one way to fail on one machine, nightly with each way and on several.
"""

import dataclasses
import itertools
import json
import pathlib
import re
import shutil
import signal
import sys
import tempfile
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
OF_LAUNCHER = ("dataset.prepare",)
OF_RANK_0 = (*OF_LAUNCHER, "dataset.to_image", "optimizer.state", "objective.scores", "callback.state", *OF_LOGGERS)
CALLS = {"model.prepare": 1, "model.initialize": 1, "dataset.prepare": 1, "dataset.start": 1, "dataset.spec": 1,
         "dataset.to_image": 2, "optimizer.start": 1, "optimizer.state": 2, "objective.prepare": 1, "objective.scores": 1, "callback.start": 1,
         "callback.after_evaluation": 1, "callback.finish": 1, "callback.state": 2, "logger.start": 1, "logger.metrics": 3,
         "logger.predictions": 1, "logger.flush": 2, "logger.finish": 1}
HOOKS = ("model.prepare", "model.initialize", "model.forward", "model.step", "dataset.prepare", "dataset.start", "dataset.spec",
         "dataset.get", "dataset.augment", "dataset.to_image", "optimizer.start", "optimizer.step",
         "optimizer.state", "objective.prepare", "objective.loss", "objective.metrics", "objective.scores", "callback.start",
         "callback.after_step", "callback.after_evaluation", "callback.state", "callback.finish", *OF_LOGGERS)
AT_START = ("model.prepare", "model.initialize", "dataset.start", "dataset.spec", "optimizer.start", "objective.prepare")
CALLED_AS = {"model.forward": "(step|forward)", "optimizer.step": "step(_unless)?"}  # the default of the one calls the other
TOLD = {"throw": "a hook that is broken", "mistake": "an input that is wrong", "odd": "something that is not a std::exception"}
SIGNALS = {"segv": "SIGSEGV", "abort": "SIGABRT"}
EXITS = ("exit", "_exit")
WAYS = (*TOLD, *SIGNALS, *EXITS)
WORLDS = ((1, 2), (1, 1), (2, 1), (2, 2))  # nodes, workers on each
ONE_MACHINE = WORLDS[:2]


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
    def rank(self):
        return 0 if self.hook in OF_RANK_0 else self.world_size - 1

    @property
    def section(self):
        return self.hook.partition(".")[0]

    @property
    def variable(self):
        return f"{self.hook}:{CALLS.get(self.hook, 5)}:{self.rank}:{self.attempt}:{self.way}"

    @property
    def told(self):
        """As a pattern."""
        called = CALLED_AS.get(self.hook, self.hook.partition(".")[2]) + r"\(\)"
        if self.way in SIGNALS and self.hook in OF_LAUNCHER:
            return rf"ddprun: {SIGNALS[self.way]} in {called} of {self.section}; the calls that led there:"
        if self.way in EXITS and self.hook in OF_LAUNCHER:
            return rf"ddprun: {self.way}\(\) was called in {called} of {self.section}"
        if self.way in EXITS:
            told = rf"in {called}: {self.way}\(\) was called, before the work was done"
        elif self.way in SIGNALS:
            told = rf"in {called}: killed by {SIGNALS[self.way]}"
        else:
            told = ("" if self.way == "mistake" else f"{called} threw: ") + re.escape(TOLD[self.way])
        if self.section == "logger" and self.way in TOLD:
            return f"warning: logger brittle_logger failed and is disabled: {told}"
        return re.escape(PLACES[self.section]) + told

    @property
    def code(self):
        if self.hook in OF_LAUNCHER:
            return -getattr(signal, SIGNALS[self.way]) if self.way in SIGNALS else 1 if self.way in EXITS else 2
        if self.section == "logger":
            return int(self.way in TOLD)  # what the logger does not get is missing
        if self.way != "mistake":
            return 0
        return 2 if self.hook in AT_START else 1

    @property
    def restarts(self):
        ends_a_worker = self.way in (*SIGNALS, *EXITS) or self.section != "logger"
        return self.code == 0 and ends_a_worker

    def __str__(self):
        return f"{self.variable} on {self.nodes} x {self.workers}"


def faults(ways):
    """Each hook with so many ways to fail."""
    worlds, chosen = itertools.cycle(WORLDS if NIGHTLY else ONE_MACHINE), itertools.cycle(WAYS)
    return [Fault(hook, next(chosen), *((1, 1) if hook in OF_LAUNCHER else next(worlds)))
            for hook in HOOKS for _ in range(ways)]


class Hooks(CommandTest):
    references = {}  # by world size

    @classmethod
    def setUpClass(cls):
        cls.reference_folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-hooks-"))
        cls.addClassCleanup(shutil.rmtree, cls.reference_folder, ignore_errors=True)

    def setUp(self):
        super().setUp()
        (self.folder / "brittle.yaml").write_text(EXPERIMENT)

    def reference(self, world_size):
        if world_size not in self.references:
            run = self.reference_folder / str(world_size)
            self.ddprun("brittle.yaml", f"launch.workers={world_size}", f"run.dir={run}")
            self.references[world_size] = run
        return self.references[world_size]

    def launch(self, fault, run, *more):
        return self.start_nodes(fault.nodes, fault.workers, "brittle.yaml", f"run.dir={run}", *more,
                                env={"BRITTLE": fault.variable})

    def check(self, fault, run):
        launchers = self.launch(fault, run)
        codes = [launcher.wait(60) for launcher in launchers]
        text = "\n".join(launcher.text() for launcher in launchers)
        self.assert_nothing_left()
        self.assertEqual(codes[0], fault.code, text)
        leader = launchers[0].err()
        self.assertRegex(leader, fault.told)
        self.assertEqual("restart 1 of 1" in leader, fault.restarts, text)
        if codes[0] == 0:
            self.assertEqual(differences(run, self.reference(fault.world_size)), {}, text)
            self.assertEqual(summary(run)["status"], "completed")

    def test_each_hook(self):
        for number, fault in enumerate(faults(len(WAYS) if NIGHTLY else 1)):
            print(fault, file=sys.stderr, flush=True)
            with self.subTest(fault=str(fault)):
                self.check(fault, self.folder / f"run_{number}")

    def test_a_launcher_that_a_plugin_ends_has_not_done_its_work(self):
        for way in EXITS:
            with self.subTest(way=way):
                self.check(Fault("dataset.prepare", way, 1, 1), self.folder / f"run{way}")

    def test_a_hook_that_hangs_is_told_from_the_ranks_that_wait_for_it(self):
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

# SPDX-License-Identifier: MIT
"""Whatever fails, wherever: the run ends in time or goes on by itself, and its numbers are those of a run that never failed.

Runs a sample of the matrix; with FAULTS=all, all of it (tests/faults/run),
and with any other FAULTS those that this regular expression finds: FAULTS='hang:.*on 2 x 1'.
"""

import os
import pathlib
import re
import shutil
import socket
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))

import matrix  # noqa: E402
from command import SMALL, CommandTest, checkpoint_steps, differences, is_whole, summary  # noqa: E402

SAMPLE = 24
WORDS = [*SMALL, "model=mlp", "model.hidden=32", "trainer.global_batch=96", f"checkpoint.every={matrix.EVERY}st",
         "checkpoint.keep=3", "launch.max_restarts=1", "launch.restart_seconds=0.05", "launch.hang_seconds=2"]
LIMIT = 45  # seconds for the run, its end and its restart, on a busy machine


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Faults(CommandTest):
    references = {}  # world size: a run without a fault

    @classmethod
    def setUpClass(cls):
        cls.reference_folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-faults-"))
        cls.addClassCleanup(shutil.rmtree, cls.reference_folder, ignore_errors=True)

    def reference(self, world_size):
        if world_size not in self.references:
            run = self.reference_folder / str(world_size)
            self.ddprun(*WORDS, f"launch.workers={world_size}", f"run.dir={run}")
            self.references[world_size] = run
        return self.references[world_size]

    def launch(self, fault, run):
        """The launchers of all nodes."""
        environment = {"DDPRUN_FAULT": fault.variable}
        if fault.nodes == 1:
            return [self.start(*WORDS, f"launch.workers={fault.workers}", f"run.dir={run}", env=environment)]
        port = free_port()
        return [self.start("run", f"--nnodes={fault.nodes}", f"--nproc-per-node={fault.workers}", f"--node-rank={node}",
                           f"--rdzv-endpoint=127.0.0.1:{port}", *WORDS, f"run.dir={run}", env=environment)
                for node in range(fault.nodes)]

    def check(self, fault, run):
        launchers = self.launch(fault, run)
        codes = [launcher.wait(LIMIT) for launcher in launchers]
        text = "\n".join(launcher.text() for launcher in launchers)
        leader = launchers[0].err()
        if fault.is_told_by_all:
            self.assertEqual(set(codes), {1}, text)
            self.assertIn("an injected fault", leader)
            self.ddprun("resume", run, f"launch.workers={fault.nodes * fault.workers}")
        else:
            self.assertEqual(set(codes), {0}, text)
            self.assertIn("restart 1 of 1", leader)
            if fault.hangs and fault.nodes * fault.workers > 1 and fault.point not in matrix.OF_RANK_0:
                self.assertRegex(leader, rf"rank {fault.rank}\b.* hangs|all ranks stand still", text)
            resumed = re.findall(r"^resumed at step (\d+)", launchers[0].out(), re.MULTILINE)
            wanted = [str(fault.finished_checkpoint)] if fault.finished_checkpoint else []
            self.assertEqual(resumed, wanted, text)
        self.assert_nothing_left()
        self.assertEqual(differences(run, self.reference(fault.nodes * fault.workers)), {}, text)
        self.assertEqual(summary(run)["status"], "completed")
        for step in checkpoint_steps(run):
            self.assertTrue(is_whole(run / f"checkpoints/step_{step:08}"))
        self.assertEqual([path.name for path in (run / "checkpoints").iterdir() if "tmp" in path.name], [])

    def test_the_matrix_is_as_large_as_it_claims(self):
        faults = matrix.whole()
        self.assertGreaterEqual(len(faults), 200)
        self.assertEqual(len(faults), len(set(faults)))
        for kind in matrix.KINDS:
            for point in matrix.STEP_POINTS + matrix.SAVE_POINTS:
                tried = [fault for fault in faults if (fault.kind, fault.point) == (kind, point)]
                self.assertTrue(tried or not matrix.is_possible(matrix.Fault(kind, point, 1, 1, 0)), (kind, point))

    def test_faults(self):
        wanted = os.environ.get("FAULTS")
        faults = [fault for fault in matrix.whole() if wanted == "all" or re.search(wanted, str(fault))] if wanted \
            else matrix.sample(SAMPLE)
        for number, fault in enumerate(faults):
            run = self.folder / f"run_{number}"
            with self.subTest(fault=str(fault)):
                self.check(fault, run)
            shutil.rmtree(run, ignore_errors=True)
            print(f"{number + 1}/{len(faults)} {fault}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    unittest.main()

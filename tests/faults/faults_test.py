# SPDX-License-Identifier: MIT
"""Whatever fails, wherever: the run ends in time or continues by itself, and its numbers are those of a run that never failed.

Runs a sample of the matrix, nightly all of it, and with FAULTS those that this regular expression finds: FAULTS='hang:.*on 2 x 1'.
"""

import os
import pathlib
import re
import shutil
import signal
import sys
import time
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))

import matrix  # noqa: E402
import mounts  # noqa: E402
from command import DDPRUN, NIGHTLY, SMALL, CommandTest, all_rows, checkpoint_steps, differences, flip_a_bit, is_whole, summary  # noqa: E402
from matrix import Outcome  # noqa: E402

SAMPLE = 20
WORDS = [*SMALL, "model=mlp", "model.hidden=32", "trainer.global_batch=96", f"checkpoint.every={matrix.EVERY}st",
         f"callbacks=[{DDPRUN.parent.parent}/tests/fault_plugins/brittle_callback.so]", "checkpoint.keep=3",
         "launch.max_restarts=1", "launch.restart_seconds=0.05"]
LIMIT = 120  # seconds for the run, its end and its restart, on a busy machine


def is_stopped(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


class Faults(CommandTest):
    def reference(self, fault):
        """A run on one machine, which leaves out the same batch."""
        words = fault.kind.words if fault.kind.leaves_out else ()
        environment = {"DDPRUN_FAULT": f"{fault.kind.injected}:{fault.point}:{fault.step}"} if fault.kind.leaves_out else {}
        return self.undisturbed(*WORDS, *words, f"launch.workers={fault.world_size}", env=environment)

    def launch(self, fault, run):
        """The launchers of all nodes, whose workers share the optimizer in half of the cases; those of the reference never do."""
        words = [*WORDS, *fault.kind.words, f"checkpoint.async={str(fault.asynchronous).lower()}", f"run.dir={run}",
                 f"trainer.shard_optimizer={str(fault.is_shared).lower()}"]
        preloaded = {"LD_PRELOAD": os.environ[fault.kind.preloaded]} if fault.kind.preloaded else {}
        return self.start_nodes(fault.nodes, fault.workers, *words, env={"DDPRUN_FAULT": fault.variable, **preloaded})

    # What happens from outside, to a worker that is stopped at the point. Each returns how to undo it.

    def frozen(self, fault, run, worker, launchers):
        """The kernel of a machine whose processes are stopped continues answering for them."""
        launcher = launchers[fault.rank // fault.workers]
        stopped = [pid for rank, pid in self.workers().items() if rank // fault.workers == fault.rank // fault.workers]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        launcher.send(signal.SIGSTOP)
        for other in launchers:
            if other is not launcher:
                other.wait(LIMIT)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        launcher.send(signal.SIGCONT)
        return lambda: None

    def mute(self, fault, run, worker, launchers):
        """The launcher alone stands still. Its worker continues, and finds that the others have given it up."""
        launcher = launchers[fault.rank // fault.workers]
        launcher.send(signal.SIGSTOP)
        for other in launchers:
            if other is not launcher:
                other.wait(LIMIT)
        os.kill(worker, signal.SIGCONT)
        time.sleep(0.5)
        launcher.send(signal.SIGCONT)
        return lambda: None

    def full(self, fault, run, worker, launchers):
        ballast = mounts.fill(run.parent)
        os.kill(worker, signal.SIGCONT)
        return ballast.unlink

    def read_only(self, fault, run, worker, launchers):
        mounts.make_read_only(run / "checkpoints")
        os.kill(worker, signal.SIGCONT)
        return lambda: mounts.unmount(run / "checkpoints")

    def flip(self, fault, run, worker, launchers):
        """Of one file, another for each fault."""
        newest = run / f"checkpoints/step_{max(fault.saved_steps):08}"
        number = zlib.crc32(str(fault).encode())
        files = sorted(newest.iterdir())
        file = files[number % len(files)]
        flip_a_bit(file, number % file.stat().st_size)
        reported = self.ddprun("verify", run, code=1).out()
        self.assertRegex(reported, rf"{newest.name}  BROKEN .*{re.escape(file.name)}")
        os.kill(worker, signal.SIGKILL)
        self.flipped = file
        return lambda: None

    def meet(self, fault, run, launchers):
        """Returns how to undo what happened."""
        if not fault.kind.while_stopped:
            return lambda: None
        worker = self.wait_until(lambda: self.workers().get(fault.rank), "the worker", launchers[0])
        self.wait_until(lambda: is_stopped(worker), "its stop at the point", launchers[0])
        return getattr(self, fault.kind.name)(fault, run, worker, launchers)

    # How it must end.

    def assert_restarted(self, fault, launchers, text):
        leader = launchers[0].err()
        self.assertIn("restart 1 of 1", leader)
        if fault.is_reported_with_its_rank:
            self.assertRegex(leader, rf"rank {fault.rank}\b.* has hung|all ranks have stalled", text)
        if fault.kind.name == "corrupt":
            self.assertRegex(leader, rf"all ranks failed: after step \d+ the ranks hold different networks: .*rank {fault.rank} on ", text)
        if fault.kind.name == "flip":
            broken = re.escape(f"{self.flipped.parent}: ") + ".*" + re.escape(self.flipped.name)
            self.assertRegex(leader, f"warning: skipped a broken checkpoint: {broken}", text)
        self.assert_resumed(fault, launchers[0], text)

    def assert_resumed(self, fault, running, text):
        resumed = [int(step) for step in re.findall(r"^resumed at step (\d+)", running.out(), re.MULTILINE)]
        self.assertLessEqual(len(resumed), 1, text)
        self.assertIn(max(resumed, default=0), fault.resumed_steps, text)

    def assert_failed(self, fault, run, launchers, text):
        for launcher in launchers:
            self.assertIn(fault.kind.message, launcher.err(), text)
        self.assertNotIn("restart 1 of 1", launchers[0].err(), text)
        for log in (run / "logs").iterdir() if fault.kind.name != "full" else ():
            self.assertIn(fault.kind.message, log.read_text(), log.name)
        self.assertIn(max(checkpoint_steps(run), default=0), fault.resumed_steps, text)

    def assert_all_is_whole(self, run):
        self.assertEqual(summary(run)["status"], "completed")
        for step in checkpoint_steps(run):
            self.assertTrue(is_whole(run / f"checkpoints/step_{step:08}"))
        self.assertEqual([path.name for path in (run / "checkpoints").iterdir() if "tmp" in path.name], [])

    def assert_times_are_plausible(self, run):
        """Though the wall clock has leapt by days."""
        self.assertLess(summary(run)["total_seconds"], 10 * LIMIT)
        busy = [row["cpu_percent"] for row in all_rows(run, measured=True) if "cpu_percent" in row]
        self.assertLess(max(busy, default=0), 100_000)

    def check(self, fault, run):
        launchers = self.launch(fault, run)
        undo = self.meet(fault, run, launchers)
        try:
            codes = [launcher.wait(LIMIT) for launcher in launchers]
        finally:
            undo()
        text = "\n".join(launcher.text() for launcher in launchers)
        self.assert_nothing_left()
        ended = fault.outcome in (Outcome.REFUSED, Outcome.FAILS, Outcome.LOST)
        self.assertEqual(set(codes), {1 if ended else 0}, text)
        match fault.outcome:
            case Outcome.RESTARTS:
                self.assert_restarted(fault, launchers, text)
            case Outcome.REFUSED:  # what is broken is not written over
                self.assertIn("none of its 1 checkpoints is intact", launchers[0].err())
                (run / "checkpoints").rename(run / "broken")
            case Outcome.FAILS:
                self.assert_failed(fault, run, launchers, text)
            case Outcome.LOST:
                self.assertIn(fault.kind.message, text)
            case Outcome.CONTINUES:
                self.assertNotRegex(text, "restart|has hung|have stalled")
        if ended:
            self.assert_resumed(fault, self.ddprun("resume", run, f"launch.workers={fault.world_size}"), text)
        self.assertEqual(differences(run, self.reference(fault)), {}, text)
        self.assert_all_is_whole(run)
        if fault.kind.name == "clock":
            self.assert_times_are_plausible(run)

    def folder_for(self, fault, number):
        if fault.kind.name in ("full", "read_only") and not mounts.is_inside():
            self.skipTest("no file systems can be mounted here")
        folder = self.folder / f"fault_{number}"
        if fault.kind.name == "full":
            mounts.mount_disk(self, folder, "10m")
        else:
            folder.mkdir()
        return folder

    def test_faults(self):
        wanted = os.environ.get("FAULTS", "." if NIGHTLY else "")
        faults = [fault for fault in matrix.whole() if re.search(wanted, str(fault))] if wanted else matrix.sample(SAMPLE)
        for number, fault in enumerate(faults):
            print(f"{number + 1}/{len(faults)} {fault}", file=sys.stderr, flush=True)
            with self.subTest(fault=str(fault)):
                folder = self.folder_for(fault, number)
                self.check(fault, folder / "run")
                shutil.rmtree(folder / "run")


if __name__ == "__main__":
    try:
        mounts.enter_namespace()
    except unittest.SkipTest as reason:
        print(f"skipped: the faults of disks: {reason}", file=sys.stderr)
    unittest.main()

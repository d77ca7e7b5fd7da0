# SPDX-License-Identifier: MIT
"""Each call of one rank to CUDA and to NCCL fails, never returns, or is its process's last; or it returns well, and the work that it has given
to the GPU fails or never ends, once or whenever a graph has it done. Also c10d's watchdog, which asks NCCL and the GPU for errors from a thread of
its own. The run, on pretend GPUs, ends and says which rank did what, leaves nothing behind and its checkpoints whole, and
continues from there to the bits of a run that nothing has disturbed. Or it did without the call, and has these bits at once."""

import collections
import os
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/end_to_end"))

from command import DDPRUN, NIGHTLY, SMALL, CommandTest, checkpoint_steps, is_whole, main, summary  # noqa: E402

SEED = int(os.environ.get("CRASH_SEED", "1"))
CHOSEN = os.environ.get("GPU_FAULTS", "").split()  # FUNCTION:CALL:WHAT, to see one again; by default those of faults()
RUN = ROOT / "tests/pretend_gpu/run"
SECONDS = 600  # of one run, on a machine that does much else; what hangs is ended by ddprun long before
DEVICE = "1"  # whose rank fails
HANG_SECONDS = 10  # of no progress at all
# Twenty steps with a checkpoint after each ten, replayed from the 14th on.
WORDS = [*(word for word in SMALL if not word.startswith("launch.device")), "model=mlp", "model.hidden=8", "launch.workers=2", "launch.device=cuda",
         "trainer.memory_format=channels_first", "launch.max_restarts=0", f"launch.hang_seconds={HANG_SECONDS}", "launch.timeout_seconds=60"]  # fmt: skip
OF_CALLS = ("error", "hang", "kill")
OF_WORK = ("late", "stall")
WATCHDOG = "pt_nccl_watchdg"  # the thread's name, as much of it as the kernel keeps
GIVES_WORK = ("cudaGraphLaunch", "cudaMemcpyAsync", "cudaEventRecordWithFlags", "ncclAllReduce", "ncclBcast", "ncclBroadcast")


class FailingGpuCalls(CommandTest):
    def start_run(self, *words, fail="", thread=""):
        settings = {"PRETEND_LIBRARIES": os.environ["PRETEND_LIBRARIES"]}
        if fail:
            settings |= {"PRETEND_FAIL": fail, "PRETEND_FAIL_DEVICE": DEVICE, "PRETEND_FAIL_THREAD": thread}
        else:
            settings |= {"PRETEND_TRACE": str(self.folder / "trace")}
        running = self.start_program(RUN, DDPRUN, *words, env=settings)
        running.wait(SECONDS)
        self.assert_nothing_left()
        return running

    def weights(self, run):
        return (self.folder / run / "checkpoints/last/model.safetensors").read_bytes()

    def calls_of_the_rank(self):
        """The names of all that the rank has called, as the faults count them."""
        files = [[line.split("\t") for line in file.read_text().splitlines()] for file in self.folder.glob("trace.*")]
        return max(([words[1] for words in lines if words[0] == "call" and words[2] == DEVICE] for lines in files), key=len)

    def faults(self, calls):
        """FUNCTION:CALL:WHAT. Every night the first, the last and one between of each function, in every way; else one of each
        kind, and one in the test."""
        chance = random.Random(SEED)
        every = {what: [] for what in (*OF_CALLS, *OF_WORK)}
        for function, count in sorted(collections.Counter(calls).items()):
            for what in (*OF_CALLS, *(OF_WORK if function in GIVES_WORK else ())):
                numbers = {1, count, chance.randint(1, count)}
                every[what] += [f"{function}:{number}:{what}" for number in sorted(numbers)]
        of_the_test = f"cudaMemcpyAsync:{calls.count('cudaMemcpyAsync')}:error"  # where the others wait for its sums
        return sum(every.values(), []) if NIGHTLY else [of_the_test, *(chance.choice(faults) for faults in every.values())]

    def faults_of_replays(self, calls):
        """The last collective that is captured is done by each replay. Every night all, else one."""
        captured = calls[:len(calls) - calls[::-1].index("cudaStreamEndCapture")].count("ncclAllReduce")
        faults = [f"{call}:{what}" for call in (f"ncclAllReduce:{captured}", "cudaGraphLaunch:3") for what in OF_WORK]
        return faults if NIGHTLY else [random.Random(SEED).choice(faults)]

    def faults_of_the_watchdog(self):
        faults = [f"any:{number}:{what}" for number in (20, 60) for what in ("error", "late", "hang", "kill")]
        return faults if NIGHTLY else [random.Random(SEED).choice(faults)]

    def test_each_call(self):
        undisturbed = self.start_run(*WORDS, "run.dir=whole")
        self.assertEqual(undisturbed.process.returncode, 0, undisturbed.text())
        self.assertEqual(summary(self.folder / "whole")["cuda_graph"], "replayed")
        self.assertEqual(checkpoint_steps(self.folder / "whole"), [10, 20])
        calls = self.calls_of_the_rank()
        faults = [(fault, "") for fault in CHOSEN or (*self.faults(calls), *self.faults_of_replays(calls))]
        faults += [(fault, WATCHDOG) for fault in self.faults_of_the_watchdog() if not CHOSEN]
        for number, (fault, thread) in enumerate(faults):
            with self.subTest(fault, thread=thread):
                self.check(fault, self.start_run(*WORDS, f"run.dir=run{number}", fail=fault, thread=thread), f"run{number}")

    def check(self, fault, running, run):
        function, _, what = fault.split(":")
        code, reported = running.process.returncode, running.text()
        for step in checkpoint_steps(self.folder / run):
            self.assertTrue(is_whole(self.folder / run / f"checkpoints/step_{step:08}"), f"step {step} is broken\n{reported}")
        if code == 0:  # without the call, or it did not come to it: how often the host asks depends on the time
            return self.assertEqual(self.weights(run), self.weights("whole"))
        self.assertRegex(reported, f"{'.*' if function == 'any' else function}, call ")
        first = next(line for line in running.err().splitlines() if line.startswith("ddprun: error: "))
        self.assertRegex(first, r"rank 1 failed first: |rank 1 has hung|all ranks have stalled|all ranks failed: |the test failed: rank 1: " if what != "kill" else
                         "rank 1 failed first: killed by SIGKILL", reported)  # fmt: skip
        for words in ("internal error", "without a message about the cause"):
            self.assertNotIn(words, first, reported)
        if checkpoint_steps(self.folder / run):
            resumed = self.start_run("resume", run)
            self.assertEqual(resumed.process.returncode, 0, resumed.text())
            self.assertEqual(self.weights(run), self.weights("whole"))
        return None


if __name__ == "__main__":
    main()

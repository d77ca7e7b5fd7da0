# SPDX-License-Identifier: MIT
"""Workers and commands are forked from a process that has loaded the program (runner/base/fork_server.h), and are as if they had
been exec'ed: in their bits, environment, signals and ends."""

import hashlib
import os
import pathlib
import signal
import struct
import time
import unittest

from command import DDPRUN, NIGHTLY, SMALL, CommandTest, fork_server, nightly, summary

from ddprun.fork_server import ForkServer

WORDS = [*SMALL, "model=mlp"]
SERVER = b"ddprun: fork server\0"
# What may depend on how a process was started: {name: (overrides, numbers of workers)}.
KINDS = {
    "plain": (["trainer.ema_decay=0.9"], (1, 2, 3, 4)),
    "threads": (["launch.threads=2"], (1, 2)),
    "shards": (["trainer.shards=4", "model=convnet_bn"], (1, 3)),
    "shared_optimizer": (["trainer.shard_optimizer=true", "optimizer=adamw"], (2, 3)),
    "bf16": (["trainer.precision=bf16"], (2,)),
    "loaders": (["model=convnet", "trainer.prefetch_threads=2", "trainer.mixup=0.3"], (2,)),
}


def children(pid):
    """{pid: its command line}, of the living."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if parent == str(pid) and state != "Z":
                found[int(entry.name)] = (entry / "cmdline").read_bytes()
        except (OSError, ValueError):  # no process, or it has ended
            continue
    return found


def ignores(pid, number):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition("SigIgn:")[2].split()[0], 16) >> (number - 1) & 1)


def server_of(running):
    return next(pid for pid, words in children(running.pid).items() if words == SERVER)


def digests(run):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (run / "checkpoints/last").glob("*.safetensors")}


class ForkedTest(CommandTest):
    def environment(self, changes=None):
        """Forks also in the night, when all other tests exec."""
        return super().environment({"DDPRUN_START": "fork"} | (changes or {}))


class Workers(ForkedTest):
    def train(self, name, *words, start="fork", code=0):
        log = self.ddprun(*WORDS, f"run.dir={name}", *words, env={"DDPRUN_START": start, "DDPRUN_LOG": "verbose"}, code=code).err()
        self.assertNotIn("exec'ed, not forked", log)
        return self.folder / name

    def test_they_compute_the_same_bits(self):
        for name, (words, worlds) in KINDS.items():
            for workers in worlds if NIGHTLY else worlds[-1:]:
                with self.subTest(name, workers=workers):
                    forked, execed = (self.train(f"{name}_{workers}_{start}", *words, f"launch.workers={workers}", start=start)
                                      for start in ("fork", "exec"))
                    self.assertEqual(digests(forked), digests(execed))

    def test_each_has_its_own_command_line_environment_and_group_and_is_the_launchers_child(self):
        running = self.start_held(2, *WORDS, "launch.workers=2", "run.dir=run")
        found = children(running.pid)
        for rank, pid in self.workers().items():
            self.assertEqual(found[pid], f"{DDPRUN}\0worker\0".encode())
            environment = self.processes()[pid]
            reported = {"RANK": str(rank), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1", "DDPRUN_RUN_DIR": f"{self.folder}/run"}
            self.assertEqual({name: environment.get(name) for name in reported}, reported)
            self.assertEqual(os.getpgid(pid), pid)
            self.assertEqual({entry.name for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()} & {"0", "1", "2"}, {"0", "1", "2"})
        running.send(signal.SIGTERM)
        self.assertEqual(running.wait(), 75, running.text())
        self.assert_nothing_left()

    def test_the_server_has_one_thread_and_nobodys_words(self):
        running = self.start_held(2, *WORDS, "launch.workers=2", "run.dir=run")
        server = pathlib.Path(f"/proc/{server_of(running)}")
        self.assertEqual(len(list((server / "task").iterdir())), 1)
        self.assertEqual((server / "environ").read_bytes(), b"")
        running.process.kill()
        running.wait()
        self.wait_until(lambda: not (server / "task").exists(), "the end of the server")
        self.assert_nothing_left()

    def test_a_server_that_dies_leaves_the_run_whole(self):
        """Also one whose worker is then killed: the next attempt is exec'ed."""
        whole = self.train("whole", "launch.workers=2")
        for killed in (False, True):
            run = f"run{killed}"
            running = self.start_held(4, *WORDS, "launch.workers=2", f"run.dir={run}", "checkpoint.every=2st", "launch.max_restarts=1",
                                      "launch.restart_seconds=0.1")
            os.kill(server_of(running), signal.SIGKILL)
            if killed:
                self.wait_until(lambda run=run: (self.folder / run / "checkpoints/step_00000004").exists(), "a checkpoint", running)
                os.kill(self.workers()[1], signal.SIGKILL)
            running.gate.open()
            self.assertEqual(running.wait(), 0, running.text())
            self.assertEqual(digests(self.folder / run), digests(whole))
            self.assertEqual(summary(self.folder / run)["status"], "completed")

    def test_a_restart_is_forked_too(self):
        running = self.start_held(4, *WORDS, "launch.workers=2", "run.dir=run", "checkpoint.every=2st", "launch.max_restarts=1",
                                  "launch.restart_seconds=0.1")
        server, before = server_of(running), set(self.workers().values())
        self.wait_until(lambda: (self.folder / "run/checkpoints/step_00000004").exists(), "a checkpoint", running)
        os.kill(self.workers()[0], signal.SIGKILL)
        running.gate.open()
        self.assertEqual(running.wait(), 0, running.text())
        self.assertNotIn("exec", running.err())
        self.assertFalse(before & set(self.workers().values()))
        self.wait_until(lambda: not pathlib.Path(f"/proc/{server}/task").exists(), "the end of the server")

    def test_threads_are_those_that_the_worker_is_reported(self):
        """libgomp reads their number when it is loaded, with the launcher; what a worker computed with stands in its checkpoint."""
        for threads in (1, 2):
            run = self.train(f"threads{threads}", f"launch.threads={threads}", "trainer.max_steps=2")
            self.assertIn(f'"threads": {threads}', (run / "checkpoints/last/state.json").read_text())

    def test_a_terminals_stop_reaches_no_server(self):
        running = self.start_held(2, *WORDS, "launch.workers=2", "run.dir=run")
        self.assertNotEqual(os.getpgid(server_of(running)), os.getpgid(running.pid))


class Commands(ForkedTest):
    """Started by ForkServer, as tools/sweep starts trials."""

    def ask(self, server, words, environment):
        """(process, errno) that the server answers."""
        reported = []
        answer = server.answer
        server.answer = lambda: reported.append(answer()) or reported[-1]
        with open(os.devnull, "r+b") as nothing:
            process = server.start(words, environment=environment, streams=[nothing.fileno()] * 3, folder=str(self.folder))
        server.answer = answer
        self.addCleanup(process.wait)
        return struct.unpack("=2i", reported[0])

    def test_a_variable_that_libraries_read_at_load_is_obeyed(self):
        """By exec, where a process with the libraries loaded could not."""
        environment = self.environment()
        server = ForkServer(DDPRUN)
        self.addCleanup(server.end)
        self.assertEqual(self.ask(server, ["--version"], environment)[1], 0)
        for name in ("MKL_CBWR", "LD_LIBRARY_PATH", "OMP_DYNAMIC", "GOMP_SPINCOUNT", "ATEN_CPU_CAPABILITY", "GLIBC_TUNABLES"):
            with self.subTest(name):
                self.assertEqual(self.ask(server, ["--version"], {**environment, name: "1"}), (0, 95))  # ENOTSUP
        for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "DDPRUN_LOG", "TORCH_NCCL_DUMP_ON_TIMEOUT"):
            with self.subTest(name):
                self.assertEqual(self.ask(server, ["--version"], {**environment, name: "1"})[1], 0)

    def test_a_command_gets_its_folder_streams_exit_code_and_signals(self):
        self.assertEqual(self.ddprun("docs", "launching").err(), "")
        self.assertIn("no such experiment", self.ddprun("nothing", code=2).err())
        self.assertTrue(self.ddprun(*WORDS, "trainer.max_steps=1", "run.dir=here").out())
        self.assertTrue((self.folder / "here").is_dir())
        for action in (signal.SIG_DFL, signal.SIG_IGN):  # the second as nohup leaves it
            before = signal.signal(signal.SIGHUP, action)
            try:
                running = self.start_held(2, *WORDS, "launch.workers=1", f"run.dir={action.name}")
            finally:
                signal.signal(signal.SIGHUP, before)
            for pid in (running.pid, self.workers()[0]):
                self.assertEqual(ignores(pid, signal.SIGHUP), action == signal.SIG_IGN)
            running.send(signal.SIGTERM)
            self.assertEqual(running.wait(), 75, running.text())

    def test_what_dies_at_once_is_known(self):
        """The process answers for itself: one that cannot be what it is asked for is reaped, and the command exec'ed."""
        with self.assertRaises(FileNotFoundError), open(os.devnull, "r+b") as nothing:
            fork_server().start(["--version"], environment=self.environment(), streams=[nothing.fileno()] * 3, folder="/nowhere")
        self.assertEqual([words for words in children(os.getpid()).values() if words not in (SERVER, b"")], [])

    def test_a_script_in_the_programs_place_is_started_as_ever(self):
        script = self.folder / "ddprun"
        script.write_text(f"#!/bin/sh\necho \"$@\" >> {self.folder}/called\n")
        script.chmod(0o755)
        server = ForkServer(script)
        with open(os.devnull, "r+b") as nothing:
            server.start(["--version"], environment=self.environment(), streams=[nothing.fileno()] * 3).wait()
        self.assertEqual((self.folder / "called").read_text(), "--version\n")


@nightly
class Soak(ForkedTest):
    """A launcher, server or worker is killed, at any moment: nothing hangs, nothing is left, and what is resumed ends with the same bits."""

    KILLS = 100
    LONG = [*WORDS, "trainer.max_epochs=4", "checkpoint.every=3st", "launch.workers=2"]

    def victims(self, running):
        found = children(running.pid)
        workers = [pid for pid, words in found.items() if words.endswith(b"worker\0")]
        return {"launcher": [running.pid], "server": [pid for pid, words in found.items() if words == SERVER], "worker": workers}

    def test_kills_in_all_phases(self):
        self.ddprun(*self.LONG, "run.dir=whole")
        whole, seconds = digests(self.folder / "whole"), summary(self.folder / "whole")["total_seconds"]
        for kill in range(self.KILLS):
            kind = ("launcher", "server", "worker")[kill % 3]
            moment = seconds * ((kill * 37) % 100) / 100  # spread over a run's life
            with self.subTest(kind, moment=moment):
                self.kill_and_resume(f"run{kill}", kind, moment, whole)

    def kill_and_resume(self, run, kind, moment, whole):
        running = self.start(*self.LONG, f"run.dir={run}")
        began = time.monotonic()
        self.wait_until(lambda: running.ended() or time.monotonic() - began >= moment, "the moment")
        for pid in self.victims(running)[kind][:1] if not running.ended() else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # it has ended meanwhile
                pass
        running.wait()
        self.assert_nothing_left()
        if not (self.folder / run / "config.yaml").exists():
            return
        if summary_status(self.folder / run) != "completed":
            self.ddprun("resume", run)
        self.assertEqual(digests(self.folder / run), whole)


def summary_status(run):
    try:
        return summary(run)["status"]
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    unittest.main()

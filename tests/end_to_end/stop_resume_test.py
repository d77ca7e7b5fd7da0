# SPDX-License-Identifier: MIT
"""Stopping a run, and everything by which one continues: resume, checkpoint.resume, other worlds, broken checkpoints."""

import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sdk/python"))

import ddprun  # noqa: E402
from command import DDPRUN, NIGHTLY, SMALL, CommandTest, Gate, all_rows, checkpoint_steps, differences, flip_a_bit, summary

WORDS = [*SMALL, "model=convnet_bn", "optimizer.lr=0.005", "trainer.max_epochs=4", "checkpoint.every=5st"]
WORKERS = "launch.workers=2"
STEPS, SAMPLES = 40, 4 * 610


def contents(run):
    """What a run is, by its files: not its logs and events, which grow with each attempt."""
    files = [path for path in run.rglob("*") if path.is_file() and path.name not in (".lock", ".attempts", "events.jsonl")]
    return {path: path.read_bytes() for path in files if path.parent.name != "logs"}


def program_of(pid):
    try:
        return pathlib.Path(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return None


def taken(pid):
    """Whether the process has blocked SIGTERM, and whether it has a handler for it."""
    fields = dict(line.split(":\t") for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    return [bool(int(fields[name], 16) >> (signal.SIGTERM - 1) & 1) for name in ("SigBlk", "SigCgt")]


class StopAndResume(CommandTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"
        self.reference = self.undisturbed(*WORDS, WORKERS)  # that nobody stopped

    def assert_same_end(self, run=None, **files):
        super().assert_same_end(run or self.run_folder, self.reference, **files)

    def begin(self, step, *words):
        return self.start_held(step, *WORDS, WORKERS, "run.dir=run", *words)

    def stop(self, running, number=signal.SIGTERM):
        """Returns the step it stopped at. The ranks agree after the 1st, 2nd, 4th, 8th ... step of an attempt, or more often: who is
        held before the 16th hands it in there at the latest, and all know by the 32nd."""
        running.send(number)
        self.assertEqual(running.wait(), 75, running.text())
        self.assertIn("saving a checkpoint", running.err())
        self.assertIn(f"resume with: ddprun resume {self.run_folder}", running.err())
        self.assert_nothing_left()
        found = summary(self.run_folder)
        self.assertEqual(found["status"], "preempted")
        self.assertLess(found["steps"], STEPS)
        self.assertEqual(checkpoint_steps(self.run_folder)[-1], found["steps"])
        return found["steps"]

    def copy(self, run, name):
        """Of a stopped run, to have an end of its own."""
        self.run_folder = self.folder / name
        shutil.copytree(run, self.run_folder, symlinks=True)

    # Signals

    def test_each_polite_signal_saves_and_the_resumed_run_ends_the_same(self):
        words, stopped, seconds = (*WORDS, WORKERS, "run.dir=run"), 0, 0
        for attempt, number in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)):
            running = self.start_held(stopped + 2, *words, attempt=attempt)
            resumed = f"resumed at step {stopped}\n"
            stopped = self.stop(running, number)
            self.assertEqual(resumed in running.out(), attempt > 0)
            before, seconds = seconds, summary(self.run_folder)["total_seconds"]
            self.assertLess(before, seconds)  # of all commands together
            words = ("resume", "run")
        self.assertIn(f"resumed at step {stopped}\n", self.ddprun(*words).out())
        self.assertLess(seconds, summary(self.run_folder)["total_seconds"])
        self.assert_same_end()

    def test_a_signal_while_the_data_are_made_ready_ends_it_to_be_run_again(self):
        for number in (signal.SIGTERM, signal.SIGUSR1):
            with self.subTest(signal=number.name), socket.create_server(("127.0.0.1", 0)) as mirror:
                mirror.settimeout(30)
                address = f"http://127.0.0.1:{mirror.getsockname()[1]}/"
                running = self.start("experiments/mnist.yaml", "dataset.root=data", f"dataset.mirrors=[{address}]",
                                     "launch.device=cpu", "run.dir=run")
                connection, _ = mirror.accept()  # of one who will never have an answer
                running.send(number)
                self.assertEqual(running.wait(), 75, running.text())
                self.assertIn("ddprun: asked to stop before the run had started", running.err())
                self.assertFalse(self.run_folder.exists())
                self.assert_nothing_left()
                connection.close()

    def test_a_signal_to_workers_that_are_still_loaded_waits_for_them(self):
        running = self.start(*WORDS, WORKERS, "run.dir=run", env=Gate(self, 0, "starting").env)
        self.wait_until(lambda: len(self.workers()) == 2, "both workers", running)
        self.stop(running)
        self.ddprun("resume", self.run_folder)
        self.assert_same_end()

    def test_the_first_process_of_a_container_hears_a_signal_while_it_is_loaded(self):
        program = DDPRUN.read_bytes()
        if b"__asan_init" in program or b"__tsan_init" in program:
            self.skipTest("a sanitizer begins before ddprun can")
        running = self.start_program("unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child", DDPRUN, *WORDS,
                                     "run.dir=run")
        first = self.wait_until(lambda: [pid for pid in self.processes() if program_of(pid) == DDPRUN] or running.ended(), "its start")
        if first is True:
            self.skipTest(f"no containers here: {running.err()}")
        blocked, _ = self.wait_until(lambda: any(taken(first[0])) and taken(first[0]), "it to take signals", running)
        self.assertTrue(blocked, "until then the kernel has thrown them away")
        os.kill(first[0], signal.SIGTERM)
        self.assertEqual(running.wait(), 75, running.text())

    def test_a_second_ctrl_c_ends_at_once(self):
        running = self.begin(2)
        self.stop_workers(running)  # they cannot answer the first
        running.send(signal.SIGINT)
        self.wait_until(lambda: "Ctrl-C again ends at once" in running.err(), "the first to be answered", running)
        answered = time.monotonic()  # two within a tenth of a second are one press of the keys
        self.wait_until(lambda: time.monotonic() > answered + 0.2, "the second press", running)
        running.send(signal.SIGINT)
        self.assertEqual(running.wait(), 130, running.text())
        self.assert_nothing_left()
        self.ddprun("resume", "run")
        self.assert_same_end()

    # What can be resumed, and what cannot

    def test_a_completed_run_trains_no_more(self):
        self.copy(self.reference, "run")
        self.ddprun("resume", "run")
        self.assert_same_end()
        self.assertEqual(summary(self.run_folder)["status"], "completed")
        self.assertEqual({row["split"] for row in all_rows(self.run_folder) if row["attempt"] == 1}, {"test"})

    def test_a_checkpoint_that_another_process_keeps_locked_is_waited_for_and_a_signal_ends_that(self):
        self.ddprun(*SMALL, "model=mlp", "trainer.max_epochs=1", "run.dir=run")
        checkpoint = os.open(self.folder / "run/checkpoints/last", os.O_RDONLY)
        fcntl.flock(checkpoint, fcntl.LOCK_EX)
        running = self.start("resume", "run", "trainer.max_epochs=2")
        self.wait_until(lambda: "which another process has locked" in running.err(), "its word", running)
        running.send(signal.SIGTERM)
        self.assertEqual(running.wait(), 75)
        self.assertIn("asked to stop before the run had started", running.err())
        os.close(checkpoint)
        self.ddprun("resume", "run", "trainer.max_epochs=2")

    def test_a_run_that_is_running_is_refused_with_its_process(self):
        running = self.begin(2)
        refused = self.ddprun("resume", "run", code=2)
        self.assertIn(f"is in use by process {running.pid} on ", refused.err())
        self.assertFalse(running.ended(), running.text())
        self.stop(running)

    def test_auto_continues_with_the_unfinished_run_and_starts_anew_where_there_is_none(self):
        for words in ((), ("run.dir=run",)):
            auto = [*WORDS, WORKERS, "checkpoint.resume=auto", *words]
            self.kill(self.start_held(12, *auto))
            again = self.ddprun(*auto)
            self.assertRegex(again.out(), r"resumed at step \d+\n")
            self.assert_same_end(self.run_folder if words else self.folder / "outputs/digits/latest")
            if not words:
                self.assertIn("resuming outputs/digits/", again.err())
        runs = self.folder / "outputs/digits"
        self.assertEqual(len(list(runs.iterdir())), 2)  # the run and `latest`
        new = self.ddprun(*WORDS, WORKERS, "checkpoint.resume=auto", "trainer.max_steps=3")
        self.assertNotIn("resuming", new.err())
        self.assertEqual(len(list(runs.iterdir())), 3)

    def test_a_new_run_starts_from_the_checkpoint_of_another(self):
        self.stop(self.begin(12))
        before = sorted(path.name for path in self.run_folder.rglob("*"))
        other = self.train("other", *WORDS, WORKERS, f"checkpoint.resume={self.run_folder}/checkpoints/last")
        self.assert_same_files(other, self.reference)
        self.assertEqual(sorted(path.name for path in self.run_folder.rglob("*")), before)

    def test_a_folder_that_is_moved_away_meanwhile_is_an_error_of_the_next_save_and_can_be_resumed_where_it_is(self):
        for name, words in (("removed", ()), ("another's", ()), ("another's", ("trainer.shard_optimizer=true",))):
            with self.subTest(name, words=words):
                running = self.begin(6, *words)
                shutil.rmtree(self.folder / "away", ignore_errors=True)
                self.run_folder.rename(self.folder / "away")
                if name == "another's":
                    self.run_folder.mkdir()
                running.gate.open()
                self.assertEqual(running.wait(), 1, running.text())
                self.assertEqual(running.err().count("the run's folder was removed or moved during the run"), 1, running.err())
                self.assertEqual([path.name for path in self.run_folder.rglob("*")], [])
                self.ddprun("resume", "away")
                self.assert_same_end(self.folder / "away")
                if name == "another's":
                    self.run_folder.rmdir()

    # Broken checkpoints

    def test_a_flipped_bit_costs_one_checkpoint_and_nothing_else(self):
        self.stop(self.begin(12))
        stopped = self.run_folder
        *_, older, newest = checkpoint_steps(stopped)
        files = ("model.safetensors", "optimizer.safetensors", "state.json", "rank_1.safetensors", "manifest.json")
        for file in files if NIGHTLY else files[::4]:
            with self.subTest(file=file):
                self.copy(stopped, file)
                broken = self.run_folder / f"checkpoints/step_{newest:08}" / file
                flip_a_bit(broken, broken.stat().st_size // 2)
                resumed = self.ddprun("resume", self.run_folder)
                self.assertIn(f"skipped a broken checkpoint: {broken.parent}: ", resumed.err())
                self.assertIn(f"resumed at step {older}\n", resumed.out())
                self.assert_same_end()

    def test_where_no_checkpoint_is_whole_none_is_written_over(self):
        self.stop(self.begin(6))
        for manifest in self.run_folder.glob("checkpoints/step_*/manifest.json"):
            manifest.write_text("{")
        before = contents(self.run_folder)
        refused = self.ddprun("resume", "run", code=2)
        self.assertIn("none of its 2 checkpoints is intact", refused.err())
        self.assertEqual(contents(self.run_folder), before)
        (self.run_folder / "checkpoints").rename(self.folder / "away")
        self.assertIn("starting it from the beginning", self.ddprun("resume", "run").err())
        self.assert_same_end()

    def test_an_attempt_that_is_refused_changes_nothing(self):
        self.copy(self.reference, "run")
        resume, last = ("resume", "run"), (self.run_folder / "checkpoints/last").resolve()
        another = (*WORDS, f"checkpoint.resume={last}", "run.dir=other")
        torch = f"{last} was saved with LibTorch 2.10.1, and this ddprun has LibTorch "
        later = rf"{last} was saved by ddprun 99.1.0, and this is ddprun \d+\.\d+\.\d+, which may not"
        for versions, words, texts in (
                ({}, (*resume, "model=mlp", "trainer.max_epochs=9"), ("does not fit the model",)),
                ({}, (*resume, "optimizer.lr=0.5", "trainer.eval_batch=7"),
                 ("command line: optimizer.lr=0.5: optimizer.lr: the run has ended its training after 40 steps, so that",)),
                ({}, (*resume, "trainer.max_epochs=5", "checkpoint.resume=other", "pretrained.file=/w", "run.dir=elsewhere", "resources.gpus=2"),
                 ("checkpoint.resume: ", "pretrained.file: ", "run.dir: ", "resources: ")),
                ({}, (*resume, "trainer.max_epochs=5", "trainer.batch_per_worker=16"),
                 ("trainer.batch_per_worker: 16 samples for each worker make 32, but ", " was trained with 64 in a step")),
                ({}, (*resume, "trainer.max_epochs=5", "trainer.global_batch=32"), ("trainer.global_batch is 32, but ", "was saved with 64")),
                ({"torch": "2.10.1"}, (*resume, "trainer.max_epochs=5"), (torch,)), ({"torch": "2.10.1"}, another, (torch,)),
                ({"ddprun": "99.1.0"}, (*resume, "trainer.max_epochs=5"), (later,)), ({"ddprun": "99.1.0"}, another, (later,))):
            with self.subTest(versions=versions, words=words):
                self.say(last, **versions)
                before = contents(self.run_folder)
                refused = self.ddprun(*words, code=2).err()
                for text in texts:
                    self.assertRegex(refused, text)
                self.assertNotIn("resume from the last checkpoint", refused)
                self.assertEqual(contents(self.run_folder), before)
                self.assertEqual(ddprun.run(self.run_folder).status, "completed")
                self.assertFalse((self.folder / "other").exists())
        self.assertIn("99.1.0", self.ddprun("evaluate", "run").err())
        self.say(last, torch="2.10.1")
        self.ddprun(*WORDS, "trainer.max_epochs=1", f"pretrained.file={last}", "run.dir=other")
        self.ddprun("evaluate", "run")
        self.say(last, ddprun="0.0.9")
        self.assertIn("was saved by ddprun 0.0.9, and this is ddprun ", self.ddprun("resume", "run").err())

    def test_a_run_that_stopped_early_continues_with_more_patience(self):
        stopping = "early_stopping={monitor: train/loss, mode: max, patience: 1}"
        self.ddprun(*WORDS, WORKERS, f"+{stopping}", "run.dir=run")
        stopped = summary(self.run_folder)
        self.assertEqual(stopped["status"], "stopped_early")
        self.ddprun("resume", "run")
        self.assertEqual(summary(self.run_folder)["steps"], stopped["steps"])
        self.ddprun("resume", "run", "early_stopping.patience=9")
        self.assert_same_files(self.run_folder, self.reference)
        self.assertEqual(differences(self.run_folder, self.reference).keys(), {("test", stopped["steps"])})

    # Other worlds

    def test_a_batch_for_each_worker_is_that_of_the_world_that_the_run_began_with(self):
        self.stop(self.start_held(14, *WORDS, WORKERS, "trainer.batch_per_worker=32", "run.dir=run"))
        stopped = self.run_folder
        self.copy(stopped, "alone")
        self.ddprun("resume", self.run_folder, "launch.workers=1", "trainer.batch_per_worker=64")  # the same product
        self.assertEqual(json.loads((self.run_folder / "run.json").read_text())["global_batch"], 64)
        self.assertEqual(summary(self.run_folder)["samples"], SAMPLES)
        self.ddprun("resume", stopped)
        self.assert_same_end(stopped)

    def test_another_number_of_workers_continues_at_the_same_sample(self):
        step = self.stop(self.begin(14))
        stopped = self.run_folder
        for workers, order in ((3, "true"), (1, "false")):
            with self.subTest(workers=workers):
                self.copy(stopped, f"run{workers}")
                resumed = self.ddprun("resume", self.run_folder, f"launch.workers={workers}", f"trainer.shuffle={order}")
                self.assertEqual("sampling, overfit_batches) changes within an epoch" in resumed.text(), order == "false")
                self.assertIn(f"resumed at step {step}\n", resumed.out())
                found = summary(self.run_folder)
                self.assertEqual((found["steps"], found["samples"], found["world_size"]), (STEPS, SAMPLES, workers))
                rows = [row for row in all_rows(self.run_folder) if row["split"] == "train"]
                self.assertEqual([row["step"] for row in rows], list(range(2, STEPS + 1, 2)))
                manifest = json.loads((self.run_folder / "checkpoints/last/manifest.json").read_text())
                self.assertEqual(manifest["world_size"], workers)

    def say(self, checkpoint, **versions):
        """As if these had saved it, not this program."""
        saved = json.loads((self.reference / "checkpoints/last/manifest.json").read_text())
        manifest = saved | versions
        del manifest["manifest_sha256"]
        text = json.dumps(manifest, separators=(",", ":"), sort_keys=True)
        manifest["manifest_sha256"] = hashlib.sha256(text.encode()).hexdigest()
        (checkpoint / "manifest.json").write_text(json.dumps(manifest))


if __name__ == "__main__":
    unittest.main()

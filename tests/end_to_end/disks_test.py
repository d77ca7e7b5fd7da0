# SPDX-License-Identifier: MIT
"""Nodes that share no file system: launchers in mount namespaces, each with a disk of its own where the run's folder lies. And a disk that
fills up while checkpoints are written: a file system of a few megabytes.

Skipped where no namespace can be made.
"""

import os
import signal
import socket
import unittest

from command import DDPRUN, SMALL, CommandTest, Gate, checkpoint_steps, free_port, is_whole, main, nightly, summary
from mounts import enter_namespace, mount_disk
from nodes_test import write_mnist

# Dropout draws from each rank's generator, and averages and momentum are state beside the weights.
WORDS = [*SMALL, "model=mlp", "model.hidden=32", "model.dropout=0.5", "trainer.global_batch=96", "trainer.max_epochs=4",
         "trainer.ema_decay=0.9", "checkpoint.every=5st", "trainer.verify_shards=true"]
MIB = 1 << 20
# A checkpoint of this network takes 1.6 MB, and three of them stay.
LARGE = [*SMALL, "model=mlp", "model.hidden=250", "launch.workers=2", "checkpoint.every=5st"]
MOUNTED = 'mount --bind "$0" "$1" && shift && exec "$@"'


class SeparateDisks(CommandTest):
    def setUp(self):
        super().setUp()
        self.place = self.folder / "outputs"  # what each node has another disk at
        self.disks = [self.folder / f"disk{node}" for node in range(2)]
        for folder in (self.place, *self.disks):
            folder.mkdir()
        self.run_dir = self.place / "run"
        self.kept, self.other = (disk / "run" for disk in self.disks)
        self.port = free_port()

    def at_node(self, node, *words, **options):
        return self.start_program("unshare", "--mount", "--propagation=private", "sh", "-c", MOUNTED, self.disks[node],
                                  self.place, DDPRUN, *words, **options)

    def launch(self, node, *words, nodes="2", workers=1, **options):
        return self.at_node(node, *words, f"--nnodes={nodes}", f"--nproc-per-node={workers}", f"--node-rank={min(node, 1)}",
                            f"--rdzv-endpoint=127.0.0.1:{self.port}", **options)

    def begin(self, *words, **options):
        return [self.launch(node, "run", *WORDS, *words, f"run.dir={self.run_dir}", **options) for node in range(2)]

    def held(self, step, launch, *words, rank=0, attempt=0):
        self.gate = Gate(self, step, rank=rank, attempt=attempt)
        launchers = launch(*words, env=self.gate.env)
        self.gate.wait(launchers[0])
        return launchers

    def resume(self, *words, **options):
        return [self.launch(node, "resume", self.run_dir, *words, **options) for node in range(2)]

    def add_disk(self):
        self.disks.append(self.folder / "disk2")
        self.disks[2].mkdir()

    def assert_ends(self, launchers, *codes):
        ends = [launcher.wait() for launcher in launchers]
        self.assertEqual(ends, list(codes), "\n".join(launcher.text() for launcher in launchers))
        self.assert_nothing_left()

    def assert_same_end(self, workers=2):
        """As of one machine that nobody disturbed, and all of it is at the first node."""
        super().assert_same_end(self.kept, self.undisturbed(*WORDS, f"launch.workers={workers}"), ("*",))
        for step in checkpoint_steps(self.kept):
            self.assertTrue(is_whole(self.kept / f"checkpoints/step_{step:08}"))
        for name in ("checkpoints", "metrics.jsonl", "summary.json"):
            self.assertFalse((self.other / name).exists(), name)


class Training(SeparateDisks):
    def test_who_does_not_see_the_runs_folder_sends_its_share_of_the_optimizer_to_be_written(self):
        self.assert_ends(self.begin("trainer.shard_optimizer=true", workers=2), 0, 0)
        self.assert_same_end(workers=4)
        for run, ranks in ((self.kept, (0, 1)), (self.other, (2, 3))):
            self.assertEqual({path.name for path in (run / "logs").glob("rank_*.log")}, {f"rank_{rank}.log" for rank in ranks})

    def test_kill_9_of_either_loses_nothing(self):
        launchers = self.held(8, self.begin)
        self.wait_until(lambda: 7 in checkpoint_steps(self.kept), "the checkpoint that is being saved", launchers[0])
        launchers[1].send(signal.SIGKILL)
        self.assert_ends(launchers, 1, -signal.SIGKILL)
        self.assertEqual(checkpoint_steps(self.kept), [5, 7])
        launchers = self.held(18, self.resume, attempt=1)
        launchers[0].send(signal.SIGKILL)
        self.assert_ends(launchers, -signal.SIGKILL, 1)
        self.assertIn("lost the first node", launchers[1].err())
        self.assert_ends(self.resume(), 0, 0)
        self.assert_same_end()

    def test_a_worker_that_dies_is_reported_with_its_log_and_the_attempt_after_it_finds_its_folder(self):
        words = ("launch.max_restarts=1", "launch.restart_seconds=0.1")
        launchers = self.begin(*words, env={"DDPRUN_FAULT": "throw:computing:8:1"})
        self.assert_ends(launchers, 0, 0)
        self.assertRegex(launchers[0].err(), r"rank 1 on \S+ failed first: ")
        self.assertIn("restart 1 of 1", launchers[0].err())
        self.assert_same_end()

    def test_ranks_that_an_engine_starts_each_with_a_launcher(self):
        world = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port)}
        ranks = [self.at_node(rank // 2, "run", *WORDS, f"run.dir={self.run_dir}",
                              env={**world, "RANK": str(rank), "LOCAL_RANK": str(rank % 2)}) for rank in range(4)]
        self.assert_ends(ranks, 0, 0, 0, 0)
        self.assert_same_end(workers=4)
        self.assertEqual({path.name for path in self.other.iterdir()}, {"config.yaml", "kept_elsewhere.txt", "logs"})

    def test_training_goes_back_to_a_checkpoint_that_one_node_has(self):
        self.assert_ends(self.begin("trainer.on_nonfinite=rollback", env={"DDPRUN_FAULT": "nan:computing:8:1"}), 0, 0)
        self.assertIn("rolling back to step 7", (self.kept / "logs/rank_0.log").read_text())
        self.assertEqual(summary(self.kept)["steps"], 28)

    @nightly
    def test_other_overrides_continue_at_both_nodes(self):
        self.assert_ends(self.begin("trainer.max_epochs=1"), 0, 0)
        self.assert_ends(self.resume("trainer.max_epochs=2"), 0, 0)
        self.assert_ends(self.resume(), 0, 0)  # by the experiment that each has kept
        self.assertEqual(summary(self.kept)["epochs"], 2)

    def test_a_node_whose_disk_is_lost_continues_with_the_words_of_the_first_start(self):
        launchers = self.held(8, self.begin)
        launchers[0].send(signal.SIGTERM)
        self.assert_ends(launchers, 75, 75)
        self.assertIn("which this node does not see", launchers[1].err())
        self.add_disk()
        self.assert_ends([self.launch(0, "resume", self.run_dir), self.launch(2, "run", *WORDS, f"run.dir={self.run_dir}")], 0, 0)
        self.assert_same_end()

    def test_with_min_max_a_node_with_an_empty_disk_is_taken_in(self):
        gate = Gate(self, 4)
        first, second = self.begin(nodes="1:2", env=gate.env)
        gate.wait(first)
        second.send(signal.SIGKILL)
        self.wait_until(lambda: "continuing with the nodes that are left" in first.err(), "the loss", first)
        self.add_disk()
        late = self.launch(2, "run", *WORDS, f"run.dir={self.run_dir}", nodes="1:2")
        self.assertEqual([first.wait(), late.wait()], [0, 0], first.text() + late.text())
        self.assertEqual(summary(self.kept)["samples"], 4 * 610)
        self.assertTrue((self.disks[2] / "run/kept_elsewhere.txt").exists())


class Folders(SeparateDisks):
    def test_a_nodes_own_folder_says_where_the_run_is(self):
        self.assert_ends(self.begin("trainer.max_epochs=1"), 0, 0)
        where = f"kept at {socket.gethostname()}:{self.run_dir}"
        listed = self.at_node(1, "list", self.place)
        self.assertEqual(listed.wait(), 0, listed.text())
        self.assertIn(where, listed.out())
        for command in ("resume", "report", "verify", "evaluate"):
            asked = self.at_node(1, command, self.run_dir)
            self.assertEqual(asked.wait(), 2, asked.text())
            self.assertIn(where, asked.err(), command)

    def test_a_run_at_the_place_of_another_nodes_folder_is_left_alone(self):
        words = (*WORDS, "trainer.max_steps=1", f"run.dir={self.run_dir}")
        mine = self.at_node(1, "run", *words)
        self.assertEqual(mine.wait(), 0, mine.text())
        before = {path: path.read_bytes() for path in self.other.rglob("*") if path.is_file()}
        launchers = self.begin()
        self.assert_ends(launchers, 2, 2)
        self.assertIn(f"{self.run_dir} already exists on this node", launchers[1].err())
        self.assertEqual({path: path.read_bytes() for path in self.other.rglob("*") if path.is_file()}, before)


class Data(SeparateDisks):
    def test_one_label_that_differs_is_found_by_verify_shards(self):
        """The experiment's path of the data is a relative one, and each node stands in a folder of its own."""
        folders = [self.folder / f"node{node}" for node in range(2)]
        for folder in folders:
            folder.mkdir()
            write_mnist(folder / "data")
        file = folders[1] / "data/train-labels-idx1-ubyte"
        file.write_bytes(file.read_bytes()[:-11] + b"\x07" + file.read_bytes()[-10:])
        launchers = [self.launch(node, "run", "experiments/mnist.yaml", "dataset.root=data", "dataset.validation=10", "trainer.max_epochs=1",
                                 "trainer.global_batch=8", "launch.device=cpu", "~early_stopping", "trainer.verify_shards=true",
                                 f"run.dir={self.run_dir}", folder=folder) for node, folder in enumerate(folders)]
        self.assert_ends(launchers, 2, 2)
        self.assertRegex(launchers[0].err(), r"rank 1 on \S+ has training sample \d+ with SHA-256 ")


class FullDisk(CommandTest):
    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        mount_disk(self, self.disk, "10m")
        self.run_folder = self.disk / "run"

    def leave_free(self, size):
        status = os.statvfs(self.disk)
        (self.disk / "ballast").write_bytes(bytes(status.f_bavail * status.f_bsize - size))

    def assert_not_saved(self, running):
        """Returns the steps of the checkpoints that there are."""
        self.assert_reported(running)
        self.assertIn("cannot save the checkpoint of step ", running.err())
        steps = checkpoint_steps(self.run_folder)
        for step in steps:
            self.assertTrue(is_whole(self.run_folder / f"checkpoints/step_{step:08}"))
        return steps

    def assert_reported(self, running):
        self.assertIn("No space left on device", running.err())
        self.assertIn(str(self.run_folder), running.err())
        for words in ("internal", "Exception raised from", "terminate called"):
            self.assertNotIn(words, running.err())
        self.assert_nothing_left()

    def test_a_disk_that_fills_costs_nothing_but_the_steps_since_the_last_checkpoint(self):
        self.leave_free(4 * MIB)
        running = self.ddprun(*LARGE, f"run.dir={self.run_folder}", code=1)
        steps = self.assert_not_saved(running)
        self.assertIn(f"ddprun resume {self.run_folder}", running.err())
        self.assertIn(5, steps)
        self.assertEqual(summary(self.run_folder)["status"], "failed")

        (self.disk / "ballast").unlink()
        resumed = self.ddprun("resume", self.run_folder)
        self.assertIn(f"resumed at step {steps[-1]}\n", resumed.out())
        self.assert_same_end(self.run_folder, self.train("reference", *LARGE))

    def test_a_disk_that_fills_while_workers_write_one_file_together(self):
        self.leave_free(6 * MIB)
        running = self.ddprun(*LARGE, "optimizer=adamw", "trainer.shard_optimizer=true", f"run.dir={self.run_folder}", code=1)
        self.assertTrue(self.assert_not_saved(running))
        self.assertEqual(list((self.run_folder / "checkpoints").glob("*.tmp")), [])

    def test_a_disk_without_a_byte_left_starts_no_run(self):
        self.leave_free(0)
        running = self.ddprun(*LARGE, f"run.dir={self.run_folder}", code=2)
        self.assert_reported(running)
        self.assertEqual(len(running.err().splitlines()), 1, running.err())

    def test_a_full_temporary_folder_is_reported_with_the_variable_that_names_it(self):
        self.leave_free(0)
        running = self.ddprun(*LARGE, "run.dir=run", code=1, env={"TMPDIR": str(self.disk)})
        self.assertRegex(running.err(), "cannot start a worker: .*No space left on device; .*TMPDIR names")


if __name__ == "__main__":
    try:
        enter_namespace()
    except unittest.SkipTest as reason:
        main(reason)
    main()

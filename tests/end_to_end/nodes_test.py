# SPDX-License-Identifier: MIT
"""Several nodes: launchers of their own, which here share one machine and talk over loopback."""

import os
import signal
import unittest

from bad_data_test import images, labels
from command import DDPRUN, SMALL, CommandTest, Gate, differences, free_port, summary

WORDS = [*SMALL, "model=mlp", "model.hidden=32", "trainer.global_batch=96"]
SECRET, ANOTHER = "tangerine-4711", "pomegranate-0815"
WITHIN = 60  # seconds, far beyond what any end takes: who relies on it hangs


def write_mnist(folder):
    folder.mkdir()
    for name, count in (("train", 40), ("t10k", 20)):
        (folder / f"{name}-images-idx3-ubyte").write_bytes(images(count))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(labels(count))


class NodesTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.run_dir = self.folder / "run"
        self.port = free_port()

    def launch(self, node, nodes, *words, workers=1, env=None, flags=(), folder=None):
        """One node's launcher; node None: the rendezvous deals the places out."""
        place = () if node is None else ("--node-rank", node)
        return self.start("run", f"--nnodes={nodes}", f"--nproc-per-node={workers}", *place,
                          f"--rdzv-endpoint=127.0.0.1:{self.port}", *flags, *WORDS, *words, f"run.dir={folder or self.run_dir}", env=env)

    def launch_all(self, nodes, *words, **options):
        return [self.launch(node, nodes, *words, **options) for node in range(nodes)]

    def ends(self, launchers):
        return [launcher.wait() for launcher in launchers]

    def assert_ends(self, launchers, *codes):
        texts = "\n".join(launcher.text() for launcher in launchers)
        self.assertEqual(self.ends(launchers), list(codes), texts)


class Training(NodesTest):
    def test_nodes_find_their_places_who_comes_first(self):
        launchers = [self.launch(None, 2, "trainer.global_batch=14") for _ in range(2)]
        self.assert_ends(launchers, 0, 0)
        self.assertEqual(summary(self.run_dir)["nodes"], 2)
        self.assertRegex(launchers[0].text() + launchers[1].text(), rf"joined as node 1 of 2 at 127.0.0.1:{self.port}; the run's folder is {self.run_dir}\n")
        self.assertIn("each of the 2 workers gets only 7 of 14 samples, too few", "".join(launcher.err() for launcher in launchers))

    def test_a_node_may_have_more_workers_than_another(self):
        self.assert_ends([self.launch(0, 2, workers=1), self.launch(1, 2, workers=3)], 0, 0)
        self.assertEqual(summary(self.run_dir)["world_size"], 4)

    def test_a_run_continues_with_another_number_of_nodes(self):
        self.assert_ends(self.launch_all(2, "trainer.max_steps=7"), 0, 0)
        self.ddprun("resume", self.run_dir, "trainer.max_steps=0")
        self.assertEqual(summary(self.run_dir)["samples"], 2 * 610)


class Mistakes(NodesTest):
    def test_one_that_nobody_waits_for(self):
        lonely = self.launch(1, 2, "launch.join_seconds=1")
        self.assertEqual(lonely.wait(WITHIN), 2)
        self.assertIn(f"nobody answers at 127.0.0.1:{self.port}", lonely.err())

    def test_nodes_that_do_not_come(self):
        lonely = self.launch(0, 3, "launch.join_seconds=2")
        self.assertEqual(lonely.wait(WITHIN), 1)
        self.assertIn("waited 2 s for 3 nodes; there is 1", lonely.err())
        self.assertFalse(self.run_dir.exists(), "a run that never began left its folder")

    def test_one_rank_twice(self):
        first = self.launch(0, 3)
        self.wait_until(lambda: "listens" in first.err(), "the first", first)
        pair = [self.launch(1, 3), self.launch(1, 3)]
        self.wait_until(lambda: any(node.ended() for node in pair), "a refusal")
        refused = next(node for node in pair if node.ended())
        self.assertEqual(refused.wait(), 2)
        self.assertIn("node rank 1 is taken by", refused.err())
        first.send(signal.SIGINT)
        self.assertEqual(first.wait(WITHIN), 130)

    def test_a_stranger_without_the_token(self):
        token = self.folder / "token"
        token.write_text("secret \r\n")
        token.chmod(0o640)
        self.assertEqual(self.launch(0, 2, f"launch.token_file={token}").wait(WITHIN), 2)
        token.chmod(0o600)
        first = self.launch(0, 2, f"launch.token_file={token}")
        peer = self.launch(1, 2, env={"DDPRUN_TOKEN": "guess"})
        self.assertEqual(peer.wait(WITHIN), 2)
        self.assertIn("the token is not that of the first node", peer.err())
        second = self.launch(1, 2, env={"DDPRUN_TOKEN": "secret"})
        self.assert_ends([first, second], 0, 0)

    def test_two_runs_at_one_port(self):
        first = self.launch(0, 2)
        self.wait_until(lambda: "listens" in first.err(), "the first", first)
        other = self.start("run", "--nnodes=2", "--node-rank=0", f"--rdzv-endpoint=127.0.0.1:{self.port}", *WORDS)
        self.assertEqual(other.wait(WITHIN), 2)
        self.assertIn("Another run is using this port", other.err())
        follower = self.launch(1, 2, flags=("--rdzv-id=another",))
        self.assertEqual(follower.wait(WITHIN), 2)
        self.assertIn("another run listens there", follower.err())

    def test_another_experiment_on_another_node(self):
        """What the first node says is compared, not obeyed: nothing of it runs here."""
        nodes = [self.launch(0, 2, "optimizer.lr=0.5"), self.launch(1, 2, "trainer.max_epochs=7")]
        self.assert_ends(nodes, 2, 2)
        for node in nodes:
            self.assertIn("optimizer.lr: 0.5 there, 0.01 here; trainer.max_epochs: 2 there, 7 here", node.err())
        self.assertFalse((self.run_dir / "logs/rank_1.log").exists(), "its worker was started")

    def test_another_folder_on_another_node(self):
        """Without a token nobody shows this node where to write."""
        nodes = [self.launch(0, 2), self.launch(1, 2, folder=self.folder / "mine")]
        self.assert_ends(nodes, 2, 2)
        self.assertIn(f"says that the run's folder is {self.run_dir}, but by this node's command it is", nodes[1].err())

    def test_a_token_proves_who_says_where_the_run_is(self):
        token = {"DDPRUN_TOKEN": "0123456789abcdef" * 2}
        nodes = [self.launch(0, 2, env=token), self.launch(1, 2, folder=self.folder / "mine", env=token)]
        self.assert_ends(nodes, 0, 0)
        self.assertIn(f"the run is done: {self.run_dir}\n", nodes[1].err())
        self.assertFalse((self.folder / "mine").exists())

    def test_a_batch_smaller_than_the_world_is_reported_everywhere(self):
        launchers = self.launch_all(2, "trainer.global_batch=3", workers=2)
        self.assertEqual(self.ends(launchers), [2, 2])
        self.assertIn("3 samples for the 4 workers of 2 nodes", launchers[0].err())

    def test_data_that_are_broken_on_the_second_node_end_the_first(self):
        """The experiment's path of the data is a relative one, and the second node stands in another folder."""
        words = ["experiments/mnist.yaml", "dataset.root=data", "dataset.validation=10", "trainer.max_epochs=1",
                 "trainer.global_batch=8", f"run.dir={self.run_dir}", "launch.device=cpu", "~early_stopping"]
        nodes = []
        for node, name in enumerate(("whole", "broken")):
            folder = self.folder / name
            folder.mkdir()
            write_mnist(folder / "data")
            if name == "broken":
                os.truncate(folder / "data/train-images-idx3-ubyte", 100)
            nodes.append(self.start("run", "--nnodes=2", "--nproc-per-node=1", f"--node-rank={node}",
                                    f"--rdzv-endpoint=127.0.0.1:{self.port}", *words, folder=folder))
        self.assert_ends(nodes, 2, 2)
        self.assertRegex(nodes[0].err(), r"rank 1 on \S+ failed first: .*data/train-images-idx3-ubyte")


class Ends(NodesTest):
    """Of runs whose rank 0 is held at step 10, with a checkpoint of step 5."""

    WORDS = ("trainer.max_epochs=8", "checkpoint.every=5st")

    def started(self, *words):
        gate = Gate(self, 10)
        launchers = self.launch_all(2, *self.WORDS, *words, env=gate.env)
        gate.wait(launchers[0])
        return launchers

    def test_a_workers_death_ends_both_nodes_and_is_named_on_both(self):
        first, second = self.started()
        os.kill(self.workers()[1], signal.SIGKILL)
        self.assert_ends([first, second], 128 + signal.SIGKILL, 128 + signal.SIGKILL)
        for launcher in (first, second):
            self.assertRegex(launcher.err(), r"rank 1 on \S+ failed first: killed by SIGKILL")
        self.assert_nothing_left()

    def test_a_restart_continues_bit_by_bit(self):
        launchers = self.started("launch.max_restarts=2", "launch.restart_seconds=0.1")
        os.kill(self.workers()[1], signal.SIGKILL)
        self.assert_ends(launchers, 0, 0)
        self.assertIn("restart 1 of 2", launchers[0].err())
        alone = self.folder / "alone"
        self.ddprun(*WORDS, *self.WORDS, "launch.workers=2", f"run.dir={alone}")
        self.assertEqual(differences(self.run_dir, alone), {})

    def test_ctrl_c_at_one_node_saves_and_stops_both(self):
        launchers = self.started()
        launchers[1].send(signal.SIGINT)
        self.assert_ends(launchers, 75, 75)
        self.assertEqual(summary(self.run_dir)["status"], "preempted")
        self.assert_nothing_left()

    def test_the_first_nodes_death_ends_the_second(self):
        first, second = self.started()
        first.send(signal.SIGKILL)
        self.assertEqual(second.wait(WITHIN), 1)
        self.assertIn("lost the first node", second.err())
        self.assert_nothing_left()

    def test_a_nodes_death_ends_the_first(self):
        first, second = self.started()
        second.send(signal.SIGKILL)
        self.assertEqual(first.wait(WITHIN), 1)
        self.assertRegex(first.err(), r"node 1 \(\S+\) is lost")
        self.assert_nothing_left()

    def test_a_second_signal_ends_a_launcher_that_waits_for_a_frozen_one(self):
        first, second = self.started("launch.node_timeout_seconds=600")
        second.send(signal.SIGSTOP)
        first.send(signal.SIGTERM)
        self.wait_until(lambda: not self.workers(), "the workers' ends", first)
        self.wait_until(lambda: first.ended() or first.send(signal.SIGTERM), "the end")
        self.assertIn(first.wait(), (128 + signal.SIGTERM, -signal.SIGTERM))  # one may come after its last word
        second.send(signal.SIGCONT)
        second.wait(WITHIN)
        self.assert_nothing_left()

    def test_with_min_max_the_others_carry_on(self):
        gate = Gate(self, 10)
        launchers = [self.launch(None, "1:3", *self.WORDS, env=gate.env) for _ in range(3)]
        gate.wait()
        leader = next(launcher for launcher in launchers if "listens" in launcher.err())
        lost = next(launcher for launcher in launchers if launcher is not leader)
        lost.send(signal.SIGKILL)
        rest = [launcher for launcher in launchers if launcher is not lost]
        self.assert_ends(rest, 0, 0)
        self.assertIn("continuing with the nodes that are left", leader.err())
        ended = summary(self.run_dir)
        self.assertEqual((ended["world_size"], ended["samples"]), (2, 8 * 610))

    def test_with_min_max_a_late_node_is_taken_in(self):
        gate = Gate(self, 4)
        first = self.launch(0, "1:2", env=gate.env)
        gate.wait(first)
        second = self.launch(1, "1:2")
        self.assert_ends([first, second], 0, 0)
        self.assertIn("to continue with one more node", first.err())
        ended = summary(self.run_dir)
        self.assertEqual((ended["world_size"], ended["samples"]), (2, 2 * 610))

    def test_with_min_max_who_is_asked_to_end_leaves_and_only_what_nobody_continues_with_is_to_be_resumed(self):
        gate = Gate(self, 4)
        first, second = (self.launch(node, "1:2", env=gate.env) for node in range(2))
        gate.wait(first)
        second.send(signal.SIGTERM)
        self.assert_ends([first, second], 0, 75)
        self.assertIn("the run continues without it", second.err())
        for launcher in (first, second):
            self.assertNotIn("ddprun resume", launcher.text())
        ended = summary(self.run_dir)
        self.assertEqual((ended["world_size"], ended["samples"]), (1, 2 * 610))


class Secrets(CommandTest):
    """A secret reaches the plugin that it is for, and nothing that is written or printed."""

    def assert_in_no_file(self):
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        found = [str(path.relative_to(self.folder)) for path in files
                 if any(secret.encode() in path.read_bytes() for secret in (SECRET, ANOTHER))]
        self.assertEqual(found, ["home/secret.txt"])

    def test_a_run_of_two_nodes_with_a_secret_each_keeps_both(self):
        sink = "https://u:${secret:DDPRUN_SINK}@host"
        loggers = f"[console, csv, jsonl, tensorboard, {{plugin: brittle_logger, sink: '{sink}'}}]"
        words = [*SMALL, "model=mlp", "trainer.max_epochs=1", "run.dir=run", f"loggers={loggers}",
                 f"plugin_path=[{DDPRUN.parent.parent}/tests/fault_plugins]"]
        file = self.folder / "home" / "secret.txt"
        file.write_text(ANOTHER + "\n")
        kept = [{"DDPRUN_SINK": SECRET}, {"DDPRUN_SINK_FILE": str(file)}]
        nodes = self.start_nodes(2, 1, *words, env=kept)
        for node, code in zip(nodes, (1, 0)):  # the first has a warning of rows that a logger has lost
            self.assertEqual(node.wait(), code, node.text())
        self.assertIn(f"cannot send to {sink}", nodes[0].err())
        self.ddprun("evaluate", "run", env=kept[1])
        self.assertIn(sink, (self.folder / "run/config.yaml").read_text())
        self.assert_in_no_file()
        refused = self.ddprun("resume", "run", code=2).err()
        self.assertRegex(refused, r"run/config\.yaml:\d+:\d+: loggers\[4\]\.sink: the environment has no DDPRUN_SINK; export it")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Three nodes as network namespaces of this machine, joined by a bridge: links that can be cut.

Needs root and iproute2; skipped where the kernel refuses.
"""

import os
import shutil
import signal
import subprocess

from command import DDPRUN, SMALL, Gate, differences, main, summary
from engines_test import EngineTest
from unknown_peers_test import listening

WORDS = [*SMALL, "model=mlp", "model.hidden=32", "trainer.global_batch=96", "checkpoint.every=5st"]
NODES = 3
PORT = 29400


def ip(*words, check=True):
    return subprocess.run(["ip", *map(str, words)], check=check, capture_output=True, text=True)


def refusal():
    if os.geteuid() != 0 or not shutil.which("ip"):
        return "network namespaces need root and iproute2"
    probe = f"ddp-{os.getpid()}-probe"
    tried = ip("netns", "add", probe, check=False)
    ip("netns", "del", probe, check=False)
    return f"no network namespaces here: {tried.stderr.strip()}" if tried.returncode else None


class Namespaces(EngineTest):
    def setUp(self):
        super().setUp()
        self.run_dir = self.folder / "run"
        self.tag = f"d{os.getpid() % 100000}"
        self.addCleanup(self.take_down)
        self.namespace(0)  # has the bridge too
        ip("-n", self.name(0), "link", "add", "bridge", "type", "bridge")
        ip("-n", self.name(0), "addr", "add", "10.213.0.1/24", "dev", "bridge")
        ip("-n", self.name(0), "link", "set", "bridge", "up")
        for node in range(1, NODES):
            self.namespace(node)
            ip("link", "add", f"{self.tag}a{node}", "type", "veth", "peer", "name", f"{self.tag}b{node}")
            ip("link", "set", f"{self.tag}a{node}", "netns", self.name(0))
            ip("link", "set", f"{self.tag}b{node}", "netns", self.name(node))
            ip("-n", self.name(0), "link", "set", f"{self.tag}a{node}", "master", "bridge", "up")
            ip("-n", self.name(node), "addr", "add", f"10.213.0.{node + 1}/24", "dev", f"{self.tag}b{node}")
            self.set_link(node, "up")

    def name(self, node):
        return f"{self.tag}-{node}"

    def namespace(self, node):
        ip("netns", "add", self.name(node))
        ip("-n", self.name(node), "link", "set", "lo", "up")

    def take_down(self):
        for node in range(NODES):
            ip("netns", "del", self.name(node), check=False)

    def set_link(self, node, state):
        ip("-n", self.name(node), "link", "set", f"{self.tag}b{node}", state)

    def launch(self, node, *words, nodes=f"{NODES}", workers=2, env=None):
        return self.start_program("ip", "netns", "exec", self.name(node), DDPRUN, "run", f"--nnodes={nodes}",
                                  f"--nproc-per-node={workers}", f"--node-rank={node}", f"--rdzv-endpoint=10.213.0.1:{PORT}",
                                  *WORDS, f"run.dir={self.run_dir}", *words, env=env)

    def launch_all(self, *words, **options):
        return [self.launch(node, *words, **options) for node in range(NODES)]

    def launch_held(self, *words, **options):
        """All, with rank 0 at step 8: no other can be further than in the exchange of the next step's gradients."""
        self.gate = Gate(self, 8)
        launchers = self.launch_all("trainer.max_epochs=8", *words, env=self.gate.env, **options)
        self.gate.wait(launchers[0])
        return launchers

    def assert_end(self, launchers, *codes):
        ends = [launcher.wait(150) for launcher in launchers]
        self.assertEqual(ends, list(codes), "\n".join(launcher.text() for launcher in launchers))

    def retransmissions(self):
        """TCP segments that the first node has sent again, as nobody acknowledged them."""
        table = ip("netns", "exec", self.name(0), "cat", "/proc/net/snmp").stdout
        names, values = (line.split()[1:] for line in table.splitlines() if line.startswith("Tcp:"))
        return int(dict(zip(names, values))["RetransSegs"])

    def alone(self, *words):
        run = self.folder / "alone"
        self.ddprun(*WORDS, "launch.workers=6", f"run.dir={run}", *words)
        return run

    def test_three_nodes_of_two_workers_train_as_six_of_one(self):
        launchers = self.launch_all()
        self.assert_end(launchers, 0, 0, 0)
        self.assertIn("listens at 10.213.0.1:29400", launchers[0].err())
        self.assertIn("anyone who can reach 10.213.0.1:29400 can join", launchers[0].err())
        self.assertEqual(summary(self.run_dir)["nodes"], NODES)
        self.assertEqual(differences(self.run_dir, self.alone()), {})
        self.assert_nothing_left()

    def test_a_link_that_comes_back_changes_nothing(self):
        launchers = self.launch_held("launch.node_timeout_seconds=60")
        self.set_link(2, "down")
        before = self.retransmissions()
        self.gate.open()
        self.wait_until(lambda: self.retransmissions() > before + 1, "something to get lost", launchers[0])
        self.set_link(2, "up")
        self.assert_end(launchers, 0, 0, 0)
        self.assertEqual(differences(self.run_dir, self.alone("trainer.max_epochs=8")), {})

    def test_a_node_that_is_cut_off_is_lost_and_the_others_carry_on(self):
        launchers = self.launch_held("launch.node_timeout_seconds=3", nodes=f"1:{NODES}")
        self.set_link(2, "down")
        self.assert_end(launchers[:2], 0, 0)
        self.assertEqual(launchers[2].wait(60), 1, launchers[2].text())
        self.assertRegex(launchers[0].err(), r"node [12] \(\S+\) is lost")
        self.assertIn("continuing with the nodes that are left", launchers[0].err())
        self.assertIn("lost the first node", launchers[2].err())
        ended = summary(self.run_dir)
        self.assertEqual((ended["world_size"], ended["samples"]), (4, 8 * 610))
        self.assert_nothing_left()

    def test_a_stop_signal_reaches_all_nodes_which_listen_in_their_network_alone(self):
        launchers = self.launch_held()
        addresses = {address for address, _ in listening(self.processes())}
        self.assertEqual(addresses, {f"10.213.0.{node + 1}" for node in range(NODES)})
        launchers[1].send(signal.SIGTERM)
        self.assert_end(launchers, 75, 75, 75)
        self.assert_nothing_left()


if __name__ == "__main__":
    main(refusal())

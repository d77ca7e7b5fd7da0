# SPDX-License-Identifier: MIT
"""A run listens where it says and nowhere else, and whoever knocks there does not stop it."""

import unittest

from command import SMALL, CommandTest, Gate, differences, free_port
from unknown_peers import UnknownPeers, listening

WORDS = [*SMALL, "model=mlp", "model.hidden=32"]


class KnockedAt(CommandTest):
    def held(self, name, *launches):
        """A run that waits in its first epoch, with what it listens at: {(address, port)}."""
        gate = Gate(self, 4)
        launchers = [self.start(*words, *WORDS, f"run.dir={name}", env=gate.env) for words in launches]
        gate.wait(launchers[0])
        return launchers, gate, listening(self.processes())

    def knock(self, place, count):
        self.addCleanup(UnknownPeers(place, count).close)

    def end(self, launchers, gate):
        gate.open()
        for launcher in launchers:
            self.assertEqual(launcher.wait(), 0, launcher.text())

    def test_one_node_listens_on_loopback_alone_and_two_at_the_address_that_was_named(self):
        launchers, gate, places = self.held("one", ["run", "--nproc-per-node=2"])
        self.assertEqual({address for address, _ in places}, {"127.0.0.1"})
        for place in places:
            self.knock(place, 40)
        self.end(launchers, gate)

        rendezvous = ("127.0.0.2", free_port())
        node = ["run", "--nnodes=2", "--nproc-per-node=1", f"--rdzv-endpoint=127.0.0.2:{rendezvous[1]}", "launch.address=127.0.0.2"]
        launchers, gate, places = self.held("two", *([*node, f"--node-rank={rank}"] for rank in range(2)))
        self.assertIn(rendezvous, places)
        self.assertEqual({address for address, _ in places}, {"127.0.0.2"})
        self.knock(rendezvous, 400)
        for place in places - {rendezvous}:
            self.knock(place, 40)
        self.end(launchers, gate)
        self.assertEqual(differences(self.folder / "one", self.folder / "two"), {})
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()

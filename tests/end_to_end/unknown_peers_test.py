# SPDX-License-Identifier: MIT
"""A run listens where it says and nowhere else, and who knocks there does not stop it."""

import ipaddress
import pathlib
import random
import socket
import sys
import threading
import time
import unittest

from command import SMALL, CommandTest, Gate, differences, free_port

WORDS = [*SMALL, "model=mlp", "model.hidden=32"]
LISTENING = "0A"


def sockets_of(pid):
    """The numbers of a process's sockets."""
    links = []
    try:
        links = [str(entry.readlink()) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:  # ended, or a descriptor that is closed by now
        pass
    return {link[len("socket:["):-1] for link in links if link.startswith("socket:[")}


def decoded(address):
    """Of /proc/net/tcp: words of 32 bits in the machine's own order."""
    words = [bytes.fromhex(address[at:at + 8]) for at in range(0, len(address), 8)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    return ipaddress.ip_address(b"".join(words))


def listening(pids):
    """{(address, port)} of all TCP sockets at which these processes listen, in whichever network they are."""
    found = set()
    for pid in pids:
        own = sockets_of(pid)
        for table in ("tcp", "tcp6"):
            try:
                lines = pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
            except OSError:
                continue
            for words in map(str.split, lines):
                if words[3] == LISTENING and words[9] in own:
                    address, port = words[1].split(":")
                    found.add((str(decoded(address)), int(port, 16)))
    return found


class UnknownPeers:
    """Some of each kind: who says nothing, who leaves at once, who speaks nonsense, who stops in the middle of a word, and who says
    a word as slowly as can be, a byte at a time. They stay until they are closed, or sent away."""

    def __init__(self, place, count, seed=0):
        numbers = random.Random(seed)
        self.sockets = []
        for number in range(count):
            peer = socket.create_connection(place, timeout=10)
            self.sockets.append(peer)
            try:
                if number % 5 == 1:
                    peer.close()
                elif number % 5 == 2:
                    peer.sendall(numbers.randbytes(numbers.randrange(1, 5000)))
                elif number % 5 == 3:
                    peer.sendall(b"\x16")  # how a TLS connection begins
                elif number % 5 == 4:
                    threading.Thread(target=self.say_slowly, args=[peer], daemon=True).start()
            except OSError:  # sent away already
                pass

    @staticmethod
    def say_slowly(peer):
        """A record of TLS that would be complete after an hour."""
        try:
            for byte in b"\x16\x03\x01\x40\x00" + bytes(1 << 14):
                peer.sendall(bytes([byte]))
                time.sleep(0.2)
        except OSError:  # sent away, or closed
            pass

    def close(self):
        for peer in self.sockets:
            peer.close()


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

# SPDX-License-Identifier: MIT
"""What of a run can be reached, and those who knock there."""

import ipaddress
import pathlib
import random
import socket
import sys
import threading
import time

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

# SPDX-License-Identifier: MIT
import fcntl
import os
import secrets
import socket
import time

from ddprun.lock import is_held
from sweep.storage import ERRORS

UNWATCHED_SECONDS = (
    10  # without a look (the storage was away, all slots were taken): what was heard before tells nothing
)
BEATS = 6  # in the time after which a silent process is taken for dead


class Processes:
    """Finds which processes of tools/sweep on a study, including this one, are dead.

    On this machine each holds a lock on a file in the sweep's folder while it lives. Those of other machines each
    increase a counter in the storage; one that has not done so for the time of grace is dead. The observer measures
    that time, so the machines' clocks need not agree.
    """

    def __init__(self, storage, study_id, folder, grace):
        self.storage, self.study_id, self.folder, self.grace = storage, study_id, folder / "processes", grace
        self.id = secrets.token_hex(4)
        self.host = socket.gethostname()
        self.beat, self.next_beat = 0, 0
        self.heard = {}  # {process: (beat, when it was first seen)}
        self.looked = 0

    def join(self):
        self.folder.mkdir(exist_ok=True)
        self.file = open(self.folder / self.id, "w")
        fcntl.flock(self.file, fcntl.LOCK_EX)
        self.say_hello()

    def say_hello(self):
        """Increases the counter from time to time, for the others."""
        if time.monotonic() < self.next_beat:
            return
        self.write({"host": self.host, "pid": os.getpid(), "beat": self.beat})
        self.beat += 1
        self.next_beat = time.monotonic() + self.grace / BEATS

    def leave(self):
        """Leaves unfinished work to the others at once."""
        try:
            self.write({"host": self.host, "ended": True})
        except ERRORS:
            pass  # they find out by its silence, or by its lock
        self.file.close()

    def write(self, record):
        self.storage.set_study_system_attr(self.study_id, f"process {self.id}", record)

    def dead(self, names):
        """Returns those of them that are dead."""
        records = self.storage.get_study_system_attrs(self.study_id) if names else {}
        if time.monotonic() - self.looked > max(self.grace, UNWATCHED_SECONDS):
            self.heard.clear()
        self.looked = time.monotonic()
        return {name for name in names if self.is_dead(name, records.get(f"process {name}"))}

    def is_dead(self, name, record):
        if name == self.id:
            return False
        if not record or record.get("ended"):
            return True
        if record["host"] == self.host and (held := is_held(self.folder / name)) is not None:
            return not held
        beat, since = self.heard.get(name, (None, 0))
        if beat != record["beat"]:
            self.heard[name] = (record["beat"], time.monotonic())
            return False
        return time.monotonic() - since > self.grace

"""A script of a peer that stands by: started once, it trains each time it is told to. Its start, and what torch.compile
takes, are then paid for once, and the rounds of a table alternate between trainings instead of processes."""

import contextlib
import json
import os
import pathlib
import queue
import signal
import subprocess
import threading

from measure import process

READY, DONE = "READY", "DONE"  # lines of its output; see peers/peer_worker.py


class Standing:
    """`warm_ups` are trainings that are run before it counts as ready, each a list of words."""

    def __init__(self, name, command, folder, environment=None, warm_ups=()):
        self.name = name
        self.folder = pathlib.Path(folder)
        self.log = self.folder / f"{name}.log"
        self._warm_ups = list(warm_ups)
        self._lines = queue.Queue()
        self._asked = 0
        self._failure = None
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [*map(str, command), "--serve"],
                cwd=self.folder,
                env={**os.environ, **as_only_rank(), **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._preparation = threading.Thread(target=self._prepare, daemon=True)
        self._preparation.start()

    def wait_until_ready(self, seconds):
        self._preparation.join(seconds)
        if self._preparation.is_alive():
            self._failure = self._failure or f"{self.name}: not ready within the time for it"
            self._process.kill()
        if self._failure:
            raise process.Failed(self._failure)

    def train(self, words, seconds):
        """Returns what the script measured. One thread at a time."""
        if self._failure:
            raise process.Failed(self._failure)
        self._asked += 1
        answer = self.folder / f"{self.name}_{self._asked}.json"
        try:
            self._process.stdin.write(json.dumps([*words, f"--json={answer}"]) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended: what it said is in its log
        self._wait_for(DONE, seconds)
        return json.loads(answer.read_text())

    def stop(self):
        """Ends it and what it started, whatever they do."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._preparation.join()
        self._reader.join()
        self._process.stdout.close()
        with contextlib.suppress(OSError):  # of a line that it has not read
            self._process.stdin.close()

    def _prepare(self):
        try:
            self._wait_for(READY, None)
            for words in self._warm_ups:
                self.train(words, None)
        except (process.Failed, OSError, ValueError) as error:
            self._failure = str(error)

    def _read(self):
        for line in self._process.stdout:
            if line.strip() in (READY, DONE):
                self._lines.put(line.strip())
        self._lines.put(None)  # its end

    def _wait_for(self, wanted, seconds):
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self._fail(f"no end within {seconds:.0f} s")
        if line != wanted:
            self._fail(f"ended with {self._process.wait()}")

    def _fail(self, what):
        """Gives up on a script: after a late answer, answers could not be matched to trainings."""
        self._process.kill()
        self._failure = f"{self.name}: {what}: {self.log.read_text(errors='replace')[-1500:]}"
        raise process.Failed(self._failure)


def as_only_rank():
    """Returns what torchrun would set; the port is a free one."""
    return {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0",
            "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}  # fmt: skip

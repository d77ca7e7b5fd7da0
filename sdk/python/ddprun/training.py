# SPDX-License-Identifier: MIT
"""Starts the program, shows what it writes, and gives back the run."""

import codecs
import collections
import ctypes
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from ddprun.errors import Failed, Interrupted, UserError
from ddprun.overrides import override_words
from ddprun.program import command
from ddprun.run_folder import Run

LAST_LINES = 20  # lines of its output in Failed
PR_SET_PDEATHSIG = 1
earlier_runs = itertools.count()  # of this process: ranks of one job meet for one run after the other


def train(experiment, *words, overrides=None, **settings):
    """Trains an experiment and returns its run: ddprun.train("experiments/mnist.yaml", trainer__max_epochs=3).

    `settings` have __ where an override has a dot; `overrides` are a dictionary, {"trainer.max_epochs": 3}; `words` are as on the
    command line: "~early_stopping". Raises Failed where it fails, Interrupted where it is stopped. Where torchrun, srun, mpirun
    or the like has started this script once for each rank or node, all of them call it, and each returns the same run.
    """
    values = {name.replace("__", "."): value for name, value in settings.items()} | dict(overrides or {})
    with tempfile.TemporaryDirectory(prefix="ddprun-") as folder:
        file = pathlib.Path(folder) / "run"
        child = Child([*command(), str(experiment), *map(str, words), *override_words(values)], file)
        code = child.show()
        found = named_run(file)
    if child.was_interrupted:
        raise Interrupted(code, found)
    if code != 0:
        raise Failed(code, child.last_lines(), found)
    if found is None:
        raise UserError("it has ended well, but its folder is not found; ddprun.runs() lists those in outputs/")
    return found


def named_run(file):
    """Returns the run whose folder the program has written there; None if it has not begun, or left nothing."""
    if not file.is_file():
        return None
    folder = pathlib.Path(os.fsdecode(file.read_bytes()).rstrip("\n"))
    return Run(folder) if (folder / "config.yaml").is_file() else None


def meeting_place():
    """Returns what lets the ranks find each other in the store of torch.distributed, where that has begun in this process, as
    in Ray's TorchTrainer: it has the port at which they would meet."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return {}
    store = distributed.distributed_c10d._get_default_store()
    while hasattr(store, "underlying_store"):  # below prefixes
        store = store.underlying_store
    serves = str(getattr(store, "port", "")) == os.environ.get("MASTER_PORT")
    return {"TORCHELASTIC_USE_AGENT_STORE": "True"} if serves else {}


class Child:
    """The running program. It is not in our process group, so each Ctrl-C sends it one SIGINT, from here."""

    def __init__(self, words, run_file):
        libc = ctypes.CDLL(None)

        def ends_with_us():  # if a notebook's kernel restarts
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

        self.lines = collections.deque(maxlen=LAST_LINES)
        self.rest = ""  # an unfinished line, which is not shown yet: a notebook would tear it
        self.was_interrupted = False
        asks = {"DDPRUN_RUN_FILE": str(run_file), "DDPRUN_EARLIER_RUNS": str(next(earlier_runs)), **meeting_place()}
        sys.stdout.flush()
        try:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                env={"DDPRUN_PYTHON": sys.executable, **os.environ, **asks}, preexec_fn=ends_with_us)  # fmt: skip
        except OSError as error:
            raise UserError(f"{words[0]} cannot be started: {error.strerror}") from None

    def show(self):
        """Copies its output to sys.stdout, which a notebook shows, until it ends. Returns its exit code; 128 + N if
        signal N ended it.

        The first Ctrl-C lets it save and end, another one ends it at once.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            while True:
                try:
                    return self.follow(decoder)
                except KeyboardInterrupt:
                    self.was_interrupted = True
                    self.process.send_signal(signal.SIGINT)
        finally:
            if self.rest:
                self.take("\n")
            self.process.terminate()  # after an exception nobody would see its output
            self.process.stdout.close()
            self.process.wait()

    def follow(self, decoder):
        while data := os.read(self.process.stdout.fileno(), 65536):
            self.take(decoder.decode(data))
        code = self.process.wait()
        return code if code >= 0 else 128 - code

    def take(self, text):
        *whole, self.rest = (self.rest + text).split("\n")
        self.lines += whole
        if whole:
            self.write("".join(f"{line}\n" for line in whole))

    def write(self, text):
        sys.stdout.write(text)
        sys.stdout.flush()

    def last_lines(self):
        return [line for line in self.lines if line.strip()][-LAST_LINES:]

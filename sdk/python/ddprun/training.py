# SPDX-License-Identifier: MIT
"""Starts the program, shows what it writes, and gives back the run."""

import codecs
import collections
import ctypes
import json
import math
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

from ddprun.config import typed_value
from ddprun.errors import Failed, Interrupted, UserError
from ddprun.lock import owner
from ddprun.program import command
from ddprun.run_folder import run

LAST_LINES = 20  # lines of its output in Failed
TOLD = re.compile(r"run folder +(/.+)$")  # printed by the logger console
PR_SET_PDEATHSIG = 1


def train(experiment, *words, overrides=None, **settings):
    """Trains an experiment and returns its run: ddprun.train("experiments/mnist.yaml", trainer__max_epochs=3).

    `settings` have __ where an override has a dot; `overrides` are a dictionary, {"trainer.max_epochs": 3}; `words` are as on the
    command line: "~early_stopping". Raises Failed where it fails, Interrupted where it is stopped.
    """
    values = {name.replace("__", "."): value for name, value in settings.items()} | dict(overrides or {})
    arguments = [*map(str, words), *(f"{name}={override_text(value, name)}" for name, value in values.items())]
    child = Child([*command(), str(experiment), *arguments])
    code = child.show()
    found = find_run(child, arguments)
    if child.was_interrupted:
        raise Interrupted(code, found)
    if code != 0:
        raise Failed(code, child.last_lines(), found)
    if found is None:
        raise UserError("it has ended well, but its folder is not found; ddprun.runs() lists those in outputs/")
    return found


class Child:
    """The running program. It is not in our process group, so each Ctrl-C sends it one SIGINT, from here."""

    def __init__(self, words):
        libc = ctypes.CDLL(None)

        def ends_with_us():  # if a notebook's kernel restarts
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

        self.lines = collections.deque(maxlen=LAST_LINES)
        self.rest = ""  # an unfinished line
        self.folders = []  # that it has printed
        self.others = set(stamped_folders())  # that existed before
        self.was_interrupted = False
        sys.stdout.flush()
        try:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                env={"DDPRUN_PYTHON": sys.executable, **os.environ}, preexec_fn=ends_with_us)  # fmt: skip
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
            self.process.terminate()  # after an exception nobody would see its output
            self.process.stdout.close()
            self.process.wait()

    def follow(self, decoder):
        while data := os.read(self.process.stdout.fileno(), 65536):
            self.take(decoder.decode(data))
        code = self.process.wait()
        return code if code >= 0 else 128 - code

    def take(self, text):
        sys.stdout.write(text)
        sys.stdout.flush()
        *whole, self.rest = (self.rest + text).split("\n")
        for line in whole:
            self.lines.append(line)
            if found := TOLD.search(line):
                self.folders.append(found[1])

    def last_lines(self):
        return [line for line in [*self.lines, self.rest] if line.strip()][-LAST_LINES:]


def find_run(child, arguments):
    """Returns the folder that it has or had locked: the named one, one that it printed, or a new one in outputs/.
    Process numbers are reused, so an older folder may have the same in its lock.
    """
    named = [word.partition("=")[2] for word in arguments if word.lstrip("+").startswith("run.dir=")]
    fresh = [folder for folder in stamped_folders() if folder not in child.others]
    for folder in [*map(pathlib.Path, [*named, *child.folders]), *fresh]:
        if not folder.is_symlink() and owner(folder / ".lock") == (child.process.pid, socket.gethostname()):
            return run(folder) if (folder / "config.yaml").is_file() else None
    return None


def stamped_folders():
    """Returns the folders of runs that were not named."""
    return pathlib.Path("outputs").glob("*/*")


# Overrides


def override_text(value, name):
    """Returns the text after `name=`: literal, unless it would be read as something else."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        plain = value and value == value.strip() and value[0] not in "[{\"'" and isinstance(typed_value(value), str)
        return value if plain and "\n" not in value else json.dumps(value, ensure_ascii=False)
    return yaml_text(value, name)


def yaml_text(value, name):
    """Returns the value in one line, in YAML's flow style."""
    if hasattr(value, "item") and not getattr(value, "shape", ()):  # a number from numpy or torch
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return json.dumps(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ".nan" if math.isnan(value) else f"{'-' if value < 0 else ''}.inf"
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, (list, tuple, range)):
        return f"[{', '.join(yaml_text(item, name) for item in value)}]"
    if isinstance(value, dict):
        entries = (f"{json.dumps(str(key), ensure_ascii=False)}: {yaml_text(item, name)}" for key, item in value.items())
        return f"{{{', '.join(entries)}}}"
    raise UserError(f"{name}: a {type(value).__name__} cannot be an override; numbers, text, booleans, None, lists and dictionaries can")

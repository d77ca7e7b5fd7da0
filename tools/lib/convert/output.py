# SPDX-License-Identifier: MIT
"""The folder that is written: its files get their names when all of them are whole."""

import fcntl
import json
import os
import sys
import time

from ddprun import UserError
from tooling.durable import make_folder, sync, sync_folder
from tooling.place import command

PART = ".part"


class Output:
    """A `with` that ends in an exception leaves no file that was not there before. Locked against another one."""

    def __init__(self, folder):
        self.folder, self.names = folder, []
        self.told, self.width = time.monotonic(), 0

    def __enter__(self):
        make_folder(self.folder)
        self.lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{self.folder}: another {command('convert')} is writing to it: name another folder, or wait for its end") from None
        except OSError:
            pass  # a network's file system without locks of folders
        return self

    def __exit__(self, kind, *_):
        self.clear()
        for name in self.names:
            part = self.part(name)
            if kind is None:
                sync(part)
                os.replace(part, self.folder / name)
            else:
                part.unlink(missing_ok=True)
        sync_folder(self.folder)
        os.close(self.lock)

    def part(self, name):
        return self.folder / f"{name}{PART}"

    def file(self, name):
        """Returns the path to write a file of that name at."""
        if (self.folder / name).exists():
            raise UserError(f"{self.folder / name} is there already: name another folder, or remove what is in it")
        self.names.append(name)
        return self.part(name)

    def write_json(self, name, value):
        self.file(name).write_text(json.dumps(value, ensure_ascii=False) + "\n", encoding="utf-8")

    def progress(self, text):
        """Shows it in a terminal, twice a second."""
        if sys.stderr.isatty() and time.monotonic() - self.told > 0.5:
            self.told = time.monotonic()
            print(f"\r{text:<{self.width}}", end="", file=sys.stderr, flush=True)
            self.width = len(text)

    def clear(self):
        if self.width:
            print(f"\r{'':<{self.width}}\r", end="", file=sys.stderr, flush=True)

# SPDX-License-Identifier: MIT
import fcntl
import os
import shutil
import signal
import socket

from ddprun import Run
from ddprun.lock import is_held, owner
from ddprun.rows import metric_names, number, read_lines, standing_rows
from tooling.durable import sync, sync_folder

LONGEST_REASON = 2000  # letters
SIGNALLED = (75, 128 + signal.SIGTERM, -signal.SIGTERM)  # saved first; or it had not begun yet


class TrialRun:
    """The run of a trial, started by this process or by a dead one.

    ddprun writes its console to logs/trial_0007.log. That file is locked before ddprun starts and stays locked while
    it lives, whatever happens to us: the lock belongs to the open file that it inherits.
    """

    def __init__(self, path, metric):
        self.path, self.log = path, path.parent / "logs" / f"{path.name}.log"
        self.split, _, self.metric = metric.name.partition("/")
        self.child = None  # a process of ours
        self.rows, self.read_to = [], 0
        self.measured = []  # the metric in those of them that count
        self.stopped = False

    # Processes

    def start(self, program, words, environment):
        self.log.parent.mkdir(exist_ok=True)
        with open(self.log, "ab") as log, open(os.devnull, "rb") as nothing:
            fcntl.flock(log, fcntl.LOCK_EX)
            streams = [nothing.fileno(), log.fileno(), log.fileno()]
            self.child = program.server.start(words, environment=environment, streams=streams, new_session=True)

    def is_alive(self):
        if self.child:
            return self.child.poll() is None
        return bool(is_held(self.log)) or bool(is_held(self.path / ".lock"))

    def has_begun(self):
        """Returns whether there is a run to resume. A start that was killed at once leaves none."""
        return (self.path / "config.yaml").is_file() and (self.path / "logs").is_dir()

    def clear_torn(self):
        """Removes a torn folder, since ddprun creates the folder itself."""
        if self.path.exists() and not self.has_begun():
            shutil.rmtree(self.path)

    def process(self):
        """Returns a pidfd of the process that runs it; None if that is unknown, or on another machine."""
        if self.child:
            return os.pidfd_open(self.child.pid) if self.child.poll() is None else None
        found = owner(self.path / ".lock")
        try:
            descriptor = os.pidfd_open(found[0]) if found and found[1] == socket.gethostname() else None
        except OSError:
            return None
        if descriptor is not None and not is_held(self.path / ".lock"):  # a number that somebody else has by now
            os.close(descriptor)
            return None
        return descriptor

    def stop(self):
        """Stops it by SIGTERM, sent once: it saves and ends. Called again until it could be sent."""
        if self.stopped or (descriptor := self.process()) is None:
            return
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            self.stopped = True
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)

    def exit_code(self):
        """Returns None if it is not our child's."""
        return self.child.poll() if self.child else None

    def was_signalled(self):
        return self.exit_code() in SIGNALLED

    # What it left

    def values(self):
        """Returns the values of the metric so far, one for each iteration; NaN if it was not finite."""
        rows, self.read_to = read_lines(self.path / "metrics.jsonl", self.read_to)
        if rows:
            known = len(self.measured)
            self.rows += [row for row in rows if row.get("split") != "system"]
            self.measured = [number(row[self.metric]) for row in standing_rows(self.rows)
                             if row.get("split") == self.split and self.metric in row]  # fmt: skip
            if len(self.measured) > known:
                self.sync_rows()
        return self.measured

    def sync_rows(self):
        """Puts rows on the disk before the study is told of them: one lost in a power cut would not come again, and
        those after it would count for other iterations. ddprun takes care of its other files.
        """
        sync(self.path / "metrics.jsonl")
        for folder in (self.path, self.path.parent):
            sync_folder(folder)

    def metrics(self):
        """Returns everything that it measured: possible names of the metric."""
        return sorted({f"{row['split']}/{name}" for row in self.rows for name in metric_names(row)})

    def summary(self):
        """Returns the summary of its newest attempt; empty if that wrote none."""
        if not self.has_begun():
            return {}
        return Run(self.path).summary

    def failure(self):
        """Returns why it failed, in one line."""
        summary, code = self.summary(), self.exit_code()
        if summary.get("status") == "failed" and summary.get("stop_reason"):
            return one_line(summary["stop_reason"])
        lines = [line for line in tail(self.log) if "error: " in line]
        if lines:
            return one_line(lines[-1].partition("error: ")[2])
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"ended with {code}; see {self.log}"


def one_line(text):
    line = " ".join(str(text).split())
    return line if len(line) <= LONGEST_REASON else line[:LONGEST_REASON] + " ..., whole in the run's summary.json or log"


def tail(file):
    try:
        with open(file, "rb") as stream:
            stream.seek(max(stream.seek(0, os.SEEK_END) - 20_000, 0))
            return stream.read().decode(errors="replace").splitlines()
    except OSError:
        return []

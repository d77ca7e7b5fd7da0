# SPDX-License-Identifier: MIT
"""Starts many commands of one ddprun program quickly: a process that has loaded it forks them
(runner/base/fork_server.h). A command gets its own arguments, folder, environment and streams, and is a child of this
process, as if subprocess.Popen had started it."""

import os
import select
import signal
import socket
import struct
import subprocess

OWN_SESSION = 2  # runner/base/fork_request.h: the flags, and what Header says
FORK = 1
RESTORED = {signal.SIGPIPE, signal.SIGXFSZ}  # by Popen; Python ignores them
PATIENCE_SECONDS = 60


class Forked:
    """What Popen has, of a child that another process has made."""

    def __init__(self, pid):
        self.pid, self.returncode = pid, None

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout=None):
        if self.poll() is None:
            handle = os.pidfd_open(self.pid)
            try:
                select.select([handle], [], [], timeout)
            finally:
                os.close(handle)
            if self.poll() is None:
                raise subprocess.TimeoutExpired(self.pid, timeout)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """Forks commands of `program`. The first command starts it, and its environment is what the program is loaded with.
    Used from one thread."""

    def __init__(self, program):
        self.program, self.server, self.socket = str(program), None, None
        self.able = is_binary(program)  # a script in its place would not know what it is asked for

    def start(self, words, *, environment, streams, folder="", new_session=False):
        """Starts the program with these words. `streams` are file descriptors of standard input, output and error. What
        cannot be forked, since its libraries would be loaded with other variables, say, is started by Popen.
        """
        pid = None
        preloads = environment.get("LD_PRELOAD") != os.environ.get("LD_PRELOAD")  # who knows what such a library reads
        if self.able and not preloads and environment.get("DDPRUN_START") != "exec":
            pid = self.fork(words, environment, streams, folder, OWN_SESSION if new_session else 0)
        if pid:
            return Forked(pid)
        stdin, stdout, stderr = streams
        return subprocess.Popen([self.program, *words], cwd=folder or None, env=environment, stdin=stdin, stdout=stdout,
                                stderr=stderr, start_new_session=new_session)  # fmt: skip

    def fork(self, words, environment, streams, folder, flags):
        """Returns the process, or None."""
        if self.server is None:
            self.begin(environment)
        request = os.memfd_create("ddprun-request")
        try:
            os.write(request, message([self.program, *words], environment, folder, flags))
            socket.send_fds(self.socket, [b"f"], [request, *streams])
            pid, error = struct.unpack("=2i", self.answer())
        except (OSError, struct.error):  # it has ended
            return None
        finally:
            os.close(request)
        if pid and error:
            os.waitpid(pid, 0)
        return None if error else pid

    def begin(self, environment):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE_SECONDS)
        nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.server = subprocess.Popen([self.program], **nothing, pass_fds=[theirs.fileno()],
                                       env={**environment, "DDPRUN_FORK_SERVER": str(theirs.fileno())})  # fmt: skip
        theirs.close()

    def answer(self):
        try:
            return self.socket.recv(8)
        except TimeoutError:
            self.server.kill()  # so that nothing is started later; what exists has answered
            return self.socket.recv(8)

    def end(self):
        if self.server:
            self.socket.close()
            self.server.wait()


def is_binary(program):
    try:
        with open(program, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def message(words, environment, folder, flags):
    variables = [f"{name}={value}" for name, value in environment.items()]
    ignored = [number for number in signal.valid_signals() - RESTORED if signal.getsignal(number) is signal.SIG_IGN]
    blocked = list(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    header = struct.pack("=7I", FORK, flags, len(words), len(variables), 0, len(blocked), len(ignored))
    text = b"".join(os.fsencode(str(word)) + b"\0" for word in [*words, *variables, folder])
    return header + text + struct.pack(f"={len(blocked) + len(ignored)}i", *blocked, *ignored)

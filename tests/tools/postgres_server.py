# SPDX-License-Identifier: MIT
"""A PostgreSQL of the test's own: Debian's package, in one folder, behind a socket in it."""

import os
import pathlib
import shutil
import subprocess
import tempfile

USER = "nobody"  # who runs it where we are root, for it refuses to


def refusal():
    if not programs():
        return "there is no PostgreSQL below /usr/lib/postgresql (Debian: postgresql)"
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        return "there is no setpriv to run PostgreSQL by another user than root"
    return None


def programs():
    """The folder of the newest version's."""
    found = [path.parent for path in pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(found, key=lambda path: int(path.parent.name), default=None)


class PostgresServer:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-pg-")).resolve()
        self.process = None
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER)

    def url(self, database="postgres"):
        return f"postgresql://{USER}@/{database}?host={self.folder}"

    def command(self, program, *words):
        user = ["setpriv", f"--reuid={USER}", "--clear-groups", "--"] if os.geteuid() == 0 else []
        return [*user, str(programs() / program), *map(str, words)]

    def start(self):
        data = self.folder / "data"
        if not data.exists():
            words = [
                "-D",
                data,
                "-U",
                USER,
                "--auth=trust",
                "--no-sync",
                "--no-instructions",
                "--encoding=UTF8",
                "--locale=C",
            ]
            made = subprocess.run(self.command("initdb", *words), cwd=self.folder, check=False, capture_output=True, text=True)
            if made.returncode != 0:
                raise RuntimeError(f"initdb ends with {made.returncode}:\n{made.stdout}{made.stderr}")
        settings = ["listen_addresses=", f"unix_socket_directories={self.folder}", "fsync=off", "max_connections=60"]
        words = [word for setting in settings for word in ("-c", setting)]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                self.command("postgres", "-D", data, *words), cwd=self.folder, stdout=log, stderr=log
            )

    def is_ready(self):
        if self.process.poll() is not None:
            raise RuntimeError((self.folder / "log").read_text())
        return subprocess.run([programs() / "pg_isready", "-q", "-h", self.folder], check=False).returncode == 0

    def stop(self):
        """At once, as if the machine had lost its power."""
        if self.process:
            self.process.send_signal(3)  # SIGQUIT: immediate shutdown
            self.process.wait()
        self.process = None

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

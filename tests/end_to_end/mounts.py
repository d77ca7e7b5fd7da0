# SPDX-License-Identifier: MIT
"""File systems in a mount namespace of the test's own, so that nothing of them is left however the test ends."""

import errno
import os
import subprocess
import sys
import unittest

NAMESPACE = ["unshare", "--map-root-user", "--mount"]
INSIDE = "DDPRUN_TEST_NAMESPACE"


def is_inside():
    return INSIDE in os.environ


def enter_namespace():
    """Begins this program anew within one; unittest.SkipTest where none can be made."""
    if is_inside():
        return
    try:
        trial = subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise unittest.SkipTest(f"no small file system can be mounted here: {error}")
    if trial.returncode:
        raise unittest.SkipTest(f"no small file system can be mounted here: {trial.stderr.strip()}")
    os.execvpe(NAMESPACE[0], [*NAMESPACE, sys.executable, "-B", *sys.argv], {**os.environ, INSIDE: "1"})


def mount_disk(test, folder, size):
    """An empty file system of that size, as in "10m", until the test's end."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)
    test.addCleanup(unmount, folder)


def unmount(folder):
    subprocess.run(["umount", "--lazy", folder], check=True)


def make_read_only(folder):
    """For every file that is opened from now on, until unmount(folder)."""
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)


def fill(disk):
    """To the last page. Returns the file to remove."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(os.statvfs(disk).f_bsize))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return ballast

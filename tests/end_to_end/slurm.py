# SPDX-License-Identifier: MIT
"""A Slurm of the test's own: munged, slurmctld and a slurmd for each of two nodes, all of it in one folder.

The nodes are this machine under two names: each slurmd has a host name and an /etc/hosts of its own. Needs root, for that and for
slurmd; nothing of the machine's own Slurm is used or touched.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import uuid

from command import free_port

NODES = ("node1", "node2")
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "squeue", "unshare", "setpriv")
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"  # the daemons are not on a user's
PORTS = 1 + len(NODES)
WITHIN = 60  # seconds, far beyond what a start takes

CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=30
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 State=UP
PartitionName=graceful Nodes=ALL PriorityTier=1 GraceTime=120 State=UP
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF State=UP
"""
NODE = "NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=1000\n"


def refusal():
    if os.geteuid() != 0:
        return "a Slurm of the test's own needs root"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=SYSTEM_PATH)]
    if missing:
        return f"there is no {', '.join(missing)} here (Debian: slurmctld slurmd slurm-client munge)"
    tried = subprocess.run(["unshare", "--uts", "--mount", "true"], capture_output=True, text=True)
    return f"no namespaces for the nodes here: {tried.stderr.strip()}" if tried.returncode else None


class Cluster:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-slurm-")).resolve()
        self.mark = uuid.uuid4().hex
        self.daemons = []
        self.environment = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", "DDPRUN_SLURM_TEST": self.mark,
                            "SLURM_CONF": f"{self.folder}/slurm.conf"}

    def start(self):
        """Skips the tests where one of the programs refuses."""
        self.folder.chmod(0o755)
        self.start_munged()
        self.configure()
        self.start_daemon("slurmctld", "slurmctld", "-D", "-i")
        for node in NODES:
            script = f"hostname {node} && mount --bind {self.folder}/hosts /etc/hosts && exec slurmd -D"
            self.start_daemon(f"slurmd-{node}", "unshare", "--uts", "--mount", "sh", "-c", script)
        idle = list(NODES)
        self.wait_until(lambda: self.run("sinfo", "-h", "-N", "-p", "low", "-t", "idle", "-o", "%N").split() == idle, "idle nodes")

    def start_munged(self):
        munge = self.folder / "munge"
        munge.mkdir(mode=0o755)
        (munge / "key").touch(mode=0o600)
        (munge / "key").write_bytes(os.urandom(1024))
        files = [f"--{name}={munge / file}" for name, file in
                 (("socket", "socket"), ("key-file", "key"), ("log-file", "log"), ("pid-file", "pid"), ("seed-file", "seed"))]
        self.start_daemon("munged", "munged", "--foreground", "--force", *files)
        self.wait_until((munge / "socket").exists, "munged's socket")

    def configure(self):
        (self.folder / "state").mkdir()
        ports = [free_port() for _ in range(PORTS)]
        nodes = "".join(NODE.format(name=name, port=port) for name, port in zip(NODES, ports[1:]))
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(folder=self.folder, ports=ports) + nodes)
        hosts = "".join(f"127.0.0.1 {name}\n" for name in ("localhost", socket.gethostname(), *NODES))
        (self.folder / "hosts").write_text(hosts)

    def start_daemon(self, name, *command):
        """It ends with this process, whatever ends that."""
        log = self.folder / f"{name}.out"
        with log.open("w") as out:
            process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], cwd=self.folder, env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.daemons.append((process, log))

    def run(self, *command, check=False):
        return subprocess.run(command, env=self.environment, check=check, capture_output=True, text=True).stdout

    def wait_until(self, condition, what):
        deadline = time.monotonic() + WITHIN
        while not condition():
            for process, log in self.daemons:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise unittest.SkipTest(f"waited for {what}; {log.stem} says:\n" + log.read_text()[-2000:])
            time.sleep(0.05)

    def stop(self):
        for process, _ in reversed(self.daemons):
            process.terminate()
            try:
                process.wait(WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

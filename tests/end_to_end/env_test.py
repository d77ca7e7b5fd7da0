# SPDX-License-Identifier: MIT
"""`ddprun env` under the engines themselves where they are installed, and under what the others leave in the environment."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from command import DDPRUN, CommandTest

TORCHRUN = pathlib.Path(sys.executable).with_name("torchrun")
SLURM = {"SLURM_JOB_ID": "4242", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_NODEID": "1",
         "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "gpu[03-04]",
         "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}


def has_open_mpi():
    if not shutil.which("mpirun"):
        return False
    reported = subprocess.run(["mpirun", "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return "Open MPI" in reported.stdout


class Env(CommandTest):
    def env(self, *words, variables=None):
        return json.loads(self.ddprun("env", "--json", *words, env=variables).out())

    def under(self, *words):
        """What each process says that this command starts, by rank. Each writes a file of its own: pipes may mix them."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        shell = 'exec "$0" env --json > "$(mktemp -p "$1")"'  # no $$ for the name: torchrun makes one $ of it
        ended = subprocess.run([*map(str, words), "sh", "-c", shell, str(DDPRUN), str(folder)], cwd=self.folder,
                               env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return sorted((json.loads(file.read_text()) for file in folder.iterdir()), key=lambda place: place["rank"])

    def test_alone(self):
        place = self.env()
        self.assertEqual((place["engine"], place["role"], place["max_nodes"], place["host"]), ("", "node", 1, ""))
        self.assertEqual((place["evidence"], place["ignored"]), ([], []))
        self.assertGreaterEqual(place["cores"], 1)
        self.assertTrue(place["ddprun"] and place["libtorch"])

    def test_the_cores_are_those_that_it_may_use(self):
        core = str(min(os.sched_getaffinity(0)))
        running = self.start_program("taskset", "-c", core, DDPRUN, "env", "--json")
        self.assertEqual(running.wait(), 0, running.text())
        self.assertEqual(json.loads(running.out())["cores"], 1)

    def test_a_container_has_the_cores_of_its_quota(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one core: a quota could not make it less")
        group = pathlib.Path(f"/sys/fs/cgroup/cpu/ddprun-{self.mark}")
        limits = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}
        if pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
            group, limits = pathlib.Path(f"/sys/fs/cgroup/ddprun-{self.mark}"), {"cpu.max": "150000 100000"}
        try:
            group.mkdir()
            self.addCleanup(group.rmdir)
            for name, value in limits.items():
                (group / name).write_text(value)
            running = self.start_program("sh", "-c", 'echo 0 > "$1/cgroup.procs" && exec "$0" env --json', DDPRUN, group)
        except OSError as error:
            self.skipTest(f"no cgroup can be made here: {error}")
        self.assertEqual(running.wait(), 0, running.text())
        self.assertEqual(json.loads(running.out())["cores"], 1)

    def test_a_page_of_eighty_columns(self):
        page = self.ddprun("env", "-nr", "1", "-n", "2", "--rdzv_endpoint=node1",
                           env={"NODE_RANK": "7", "PET_RDZV_ID": "x" * 300}).out()
        self.assertLessEqual(max(map(len, page.splitlines())), 80)
        for line in ("this is       node 1 of 2", "rendezvous    node1:29400", "  --node-rank=1", "set, but ignored",
                     "  NODE_RANK=7"):
            self.assertIn(line + "\n", page)

    def test_a_slurm_node(self):
        place = self.env("--nproc-per-node", "2", variables=SLURM)
        self.assertEqual((place["engine"], place["role"], place["node_rank"], place["max_nodes"], place["workers"]),
                         ("slurm", "node", 1, 2, "2"))
        self.assertEqual((place["host"], place["job_id"]), ("gpu03", "4242"))

    def test_contradictions_end_with_2(self):
        mpi = {f"OMPI_COMM_WORLD_{name}": value
               for name, value in {"RANK": "0", "SIZE": "2", "LOCAL_RANK": "0", "LOCAL_SIZE": "2"}.items()}
        self.assertIn("RANK=1 and OMPI_COMM_WORLD_RANK=0 contradict", self.assert_refused("env", env=mpi | {"RANK": "1"}))
        self.assertIn("WORLD_SIZE=8 and SLURM_STEP_NUM_TASKS=2 contradict",
                      self.assert_refused("env", "--json", env=SLURM | {"WORLD_SIZE": "8"}))
        self.assertIn("--nnodes=2, but where do the nodes meet?", self.assert_refused("env", "--nnodes=2"))

    @unittest.skipUnless(TORCHRUN.exists(), "no torchrun beside this Python")
    def test_under_torchrun(self):
        places = self.under(TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python")
        self.assertEqual([(place["engine"], place["rank"], place["world_size"], place["local_rank"]) for place in places],
                         [("torchrun", 0, 2, 0), ("torchrun", 1, 2, 1)])
        for place in places:
            self.assertTrue(place["agent_store"] and place["engine_restarts"] and place["error_file"] and place["job_id"])
            self.assertEqual(place["port"], places[0]["port"])

    @unittest.skipUnless(has_open_mpi(), "no mpirun of Open MPI here")
    def test_under_mpirun(self):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        jobs = [self.under("mpirun", *root, "--oversubscribe", "-n", "2") for _ in range(3)]
        for places in jobs:
            self.assertEqual([(place["engine"], place["rank"], place["world_size"]) for place in places],
                             [("openmpi", 0, 2), ("openmpi", 1, 2)])
            self.assertEqual({(place["host"], place["port"]) for place in places}, {("127.0.0.1", places[0]["port"])})
        self.assertGreater(len({places[0]["port"] for places in jobs}), 1)


if __name__ == "__main__":
    unittest.main()

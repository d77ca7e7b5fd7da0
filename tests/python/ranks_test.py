# SPDX-License-Identifier: MIT
"""ddprun.train in a script that an engine starts once for each rank or node: all take part, and all get the same run or error."""

import json
import os
import pathlib
import shutil
import signal
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "sdk/python"), str(ROOT / "tests/end_to_end")]

from command import SMALL, CommandTest, Gate, free_port, peers_packages, summary  # noqa: E402

TORCHRUN = pathlib.Path(sys.executable).with_name("torchrun")
QUICK = [*SMALL, "model=mlp", "model.hidden=16", "trainer.max_steps=2"]
SCRIPT = """
import json, sys
import ddprun
reported, folders, words = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
results = []
for folder in folders:
    try:
        run = ddprun.train(*words, run__dir=folder)
        results.append([str(run.path), run.status, run.history("val/loss")])
    except ddprun.Failed as failure:
        results.append([failure.run and str(failure.run.path), failure.code, str(failure)])
with open(reported + ".json", "w") as file:
    json.dump(results, file)
"""
# As Flyte's kfpytorch plugin starts it in each pod: two processes of a module, which return what can be pickled.
ELASTIC = """
import os
from flytekit import task, workflow
from flytekitplugins.kfpytorch import Elastic

@task(task_config=Elastic(nnodes=1, nproc_per_node=2, start_method=os.environ["START_METHOD"]))
def train(folder: str, words: list[str]) -> tuple[list[float], int]:
    import ddprun
    run = ddprun.train(*words, run__dir=folder)
    return run.history("val/accuracy"), int(os.environ["RANK"])

@workflow
def elastic(folder: str, words: list[str]) -> tuple[list[float], int]:
    return train(folder=folder, words=words)
"""
USE_ELASTIC = """
import json, sys
import elastic_task

if __name__ == "__main__":
    result = elastic_task.elastic(folder=sys.argv[1], words=sys.argv[2:])
    with open(sys.argv[1] + ".json", "w") as file:
        json.dump(list(result), file)
"""
TORCH = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"]


class RanksTest(CommandTest):
    def setUp(self):
        super().setUp()
        (self.folder / "script.py").write_text(SCRIPT)
        self.package = {"PYTHONPATH": str(ROOT / "sdk/python")}

    def start_script(self, reported, folders, *words, env):
        return self.start_program(sys.executable, "-B", "script.py", reported, folders, *QUICK, *words, env=self.package | env)

    def ranks(self):
        """The variables of two ranks."""
        port = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        return [port | dict(zip(TORCH, (str(rank), str(rank), "2", "2"))) for rank in range(2)]

    def assert_all_have(self, folders, ranks):
        for running in ranks:
            self.assertEqual(running.wait(120), 0, running.text())
        mine, other = (self.reported(f"reported{rank}") for rank in range(2))
        self.assertEqual(mine, other)
        self.assertEqual([path for path, _, _ in mine], [str(self.folder / name) for name in folders.split(",")])
        self.assertEqual({status for _, status, _ in mine}, {"completed"})
        self.assertTrue(all(len(losses) == 1 for _, _, losses in mine))
        self.assert_nothing_left()

    def reported(self, name):
        return json.loads((self.folder / f"{name}.json").read_text())


class Ranks(RanksTest):
    def test_each_returns_the_same_run_however_late_it_comes_and_for_one_run_after_the_other(self):
        early, late = self.ranks()
        first = self.start_script("reported0", "one,two", env=early)
        self.wait_until(lambda: "listens at" in first.out(), "rank 0 to listen", first)
        self.assert_all_have("one,two", [first, self.start_script("reported1", "one,two", env=late)])

    def test_nodes_do_too(self):
        endpoint = f"127.0.0.1:{free_port()}"
        self.assert_all_have("one,two", [
            self.start_script(f"reported{node}", "one,two", "-n", 2, "-g", 1, "-nr", node, "--rdzv-endpoint", endpoint, env={})
            for node in range(2)])  # fmt: skip

    def test_where_torch_distributed_has_begun_they_meet_in_its_store(self):
        begins = "import torch.distributed\ntorch.distributed.init_process_group('gloo')\n"
        (self.folder / "script.py").write_text(begins + SCRIPT)
        ranks = self.ranks()
        self.assert_all_have("one,two", [self.start_script(f"reported{i}", "one,two", env=ranks[i]) for i in range(2)])

    def test_a_mistake_is_raised_on_each(self):
        ranks = self.ranks()
        for running in [self.start_script(f"reported{i}", "one", "model.hiden=3", env=ranks[i]) for i in range(2)]:
            self.assertEqual(running.wait(60), 0, running.text())
        for rank in range(2):
            [[path, code, text]] = self.reported(f"reported{rank}")
            self.assertEqual((path, code), (None, 2))
            self.assertIn("model.hiden: unknown key; did you mean hidden?", text)

    def test_the_death_of_one_is_raised_on_each_with_the_run(self):
        gate = Gate(self, 1)
        ranks = self.ranks()
        started = [self.start_script(f"reported{i}", "one", env=ranks[i] | gate.env) for i in range(2)]
        gate.wait(started[0])
        os.kill(self.workers()[1], signal.SIGKILL)
        for running in started:
            self.assertEqual(running.wait(60), 0, running.text())
        for rank in range(2):
            [[path, code, text]] = self.reported(f"reported{rank}")
            self.assertEqual((path, code), (str(self.folder / "one"), 128 + signal.SIGKILL))
            self.assertIn("killed by SIGKILL", text)
        self.assert_nothing_left()

    def test_each_process_of_an_elastic_task_of_flyte_is_one(self):
        packages = peers_packages()
        if not packages:
            self.skipTest("no flytekit: DDPRUN_PEERS=1 installs it")
        (self.folder / "elastic_task.py").write_text(ELASTIC)
        (self.folder / "use_elastic.py").write_text(USE_ELASTIC)
        for method in ("spawn", "fork"):
            with self.subTest(method):
                env = self.package | {"START_METHOD": method, "PYTHONPATH": os.pathsep.join((self.package["PYTHONPATH"], packages))}
                running = self.start_program(sys.executable, "-B", "use_elastic.py", method, *QUICK, env=env)
                self.assertEqual(running.wait(200), 0, running.text())
                accuracies, rank = self.reported(method)
                ended = summary(self.folder / method)
                self.assertEqual((ended["world_size"], rank), (2, 0))
                self.assertEqual(accuracies, ended["history"]["val/accuracy"])


class Engines(RanksTest):
    def test_each_of_the_ranks_that_one_has_started_returns_the_same_run_for_one_run_after_the_other(self):
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "-B"]
        for rank, engine in (("RANK", [str(TORCHRUN), "--standalone", "--nproc-per-node=2"]), ("OMPI_COMM_WORLD_RANK", mpirun)):
            with self.subTest(rank):
                if not shutil.which(engine[0]):
                    self.skipTest(f"there is no {engine[0]} here (openmpi-bin)")
                reported = f'reported + __import__("os").environ["{rank}"] + ".json"'
                (self.folder / "script.py").write_text(SCRIPT.replace('reported + ".json"', reported))
                folders = f"{rank}/one,{rank}/two"
                self.assert_all_have(folders, [self.start_program(*engine, "script.py", "reported", folders, *QUICK, env=self.package)])


if __name__ == "__main__":
    unittest.main()

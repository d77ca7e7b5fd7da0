# SPDX-License-Identifier: MIT
"""tools/sweep --slurm: the jobs of an array share a PostgreSQL; one that is told to end saves, and the others go on."""

import postgres_server
from sweep_test_case import MADE, State, SweepTest

import slurm
from command import main

SPACE = """\
experiment: made.yaml
method: random
metric: {name: val/score, goal: maximize}
parameters: {x: {min: 0.0, max: 1.0}, y: {min: 1, max: 50}}
run_cap: 12
"""


class Array(SweepTest):
    program = MADE

    @classmethod
    def setUpClass(cls):
        cls.server, cls.cluster = postgres_server.PostgresServer(), slurm.Cluster()
        cls.addClassCleanup(cls.server.remove)
        cls.addClassCleanup(cls.cluster.stop)
        cls.server.start()
        cls.cluster.start()

    def environment(self, changes=None):
        """sbatch's, and that of what it starts."""
        ours = super().environment(changes)
        return self.cluster.environment | ours | {"PATH": f"{ours['PATH']}:{slurm.SYSTEM_PATH}"}

    def test_jobs_share_the_trials_and_one_that_must_end_leaves_them_to_the_others(self):
        self.wait_until(self.server.is_ready, "the server")
        words = ["--slurm", "--tasks", "2", "--jobs", "2", "--storage", self.server.url()]
        done = self.swept(self.write(SPACE), *words, env={"MADE_GATE": str(self.gate)})
        job = done.out().split()[-1]
        self.wait_until(lambda: len(self.begun()) == 4, "four trials")
        self.cluster.run("scancel", "--signal=TERM", "--batch", f"{job}_0", check=True)
        said = self.out / f"slurm-{job}_0.out"
        self.wait_until(lambda: "the same command continues it" in said.read_text(), "the end of the first job")
        self.gate.touch()
        url = self.server.url().replace("postgresql:", "postgresql+psycopg:")
        self.wait_until(lambda: self.states(storage=url) == [State.COMPLETE] * 12, "all trials")
        self.assert_distinct(self.trials(storage=url))
        counts = [name for name, _ in self.begun()]
        self.assertEqual(set(counts), {f"trial_{i:04}" for i in range(12)})
        self.assertEqual(len(counts), 14, "the two that were saved, and no others, began twice")
        self.cluster.run("scancel", job)
        self.wait_until(lambda: not self.cluster.run("squeue", "-h"), "the end of the jobs")


if __name__ == "__main__":
    main(postgres_server.refusal() or slurm.refusal())

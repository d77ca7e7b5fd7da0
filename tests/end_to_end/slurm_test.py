# SPDX-License-Identifier: MIT
"""Under a real Slurm: steps of ranks and of nodes; batch jobs that are preempted, requeued and signalled."""

import pathlib
import re
import shlex
import subprocess
import sys
import unittest

import slurm
from command import DDPRUN, SMALL, Gate, differences, main, summary
from engines_test import EngineTest

WORDS = [*SMALL, "model=mlp", "model.hidden=32", "trainer.global_batch=96", "checkpoint.every=5st"]
LONG = "trainer.max_epochs=8"  # 56 steps
ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = """
import os, pathlib, sys
import ddprun
run = ddprun.train(*sys.argv[1:])
pathlib.Path("reported" + os.environ["SLURM_PROCID"]).write_text(f"{run.path} {run.status} {run.history('val/loss')}")
"""
CLUSTER = None


def setUpModule():
    global CLUSTER
    CLUSTER = slurm.Cluster()
    unittest.addModuleCleanup(CLUSTER.stop)
    CLUSTER.start()


class SlurmTest(EngineTest):
    def setUp(self):
        super().setUp()
        self.run_dir = self.folder / "run"
        self.addCleanup(self.cancel_jobs)

    def environment(self, changes=None):
        return super().environment({"SLURM_CONF": CLUSTER.environment["SLURM_CONF"]} | (changes or {}))

    def cancel_jobs(self):
        """Of this Slurm, whose only user is this test. The processes are killed by now."""
        CLUSTER.run("scancel", "--user=root")
        self.wait_until(lambda: not CLUSTER.run("squeue", "-h"), "an empty queue")

    def assert_nothing_left(self):
        self.wait_until(lambda: not CLUSTER.run("squeue", "-h"), "an empty queue")
        super().assert_nothing_left()


class Steps(SlurmTest):
    def srun(self, *words, tasks=()):
        return self.start_program("srun", *tasks, DDPRUN, *WORDS, f"run.dir={self.run_dir}", *words)

    def assert_world(self, size, nodes):
        ended = summary(self.run_dir)
        self.assertEqual((ended["world_size"], ended["nodes"]), (size, nodes))
        alone = self.folder / "alone"
        self.ddprun(*WORDS, f"launch.workers={size}", f"run.dir={alone}")
        self.assertEqual(differences(self.run_dir, alone), {})
        self.assert_nothing_left()

    def test_two_tasks_train_as_two_local_workers_do(self):
        self.assert_ends(self.srun(tasks=("-N1", "-n2")), 0)
        self.assert_world(2, 1)

    def test_tasks_on_two_nodes_are_ranks(self):
        self.assert_ends(self.srun(tasks=("-N2", "--ntasks-per-node=2")), 0)
        self.assert_world(4, 2)

    def test_one_task_for_each_node_starts_its_workers(self):
        self.assert_ends(self.srun("launch.workers=2", tasks=("-N2", "--ntasks-per-node=1")), 0)
        self.assert_world(4, 2)

    def test_a_script_that_calls_train_gets_the_same_run_on_each_node(self):
        (self.folder / "script.py").write_text(SCRIPT)
        package = {"PYTHONPATH": str(ROOT / "sdk/python")}
        words = (*WORDS, f"run.dir={self.run_dir}", "launch.workers=1")
        self.assert_ends(self.start_program("srun", "-N2", "--ntasks-per-node=1", sys.executable, "-B", "script.py", *words, env=package), 0)
        reported = [(self.folder / f"reported{node}").read_text() for node in range(2)]
        self.assertEqual(reported[0], reported[1])
        self.assertRegex(reported[0], rf"^{re.escape(str(self.run_dir))} completed \[\d")
        self.assert_world(2, 2)


class JobTest(SlurmTest):
    """Batch jobs of one task for each of two nodes, with two workers each; rank 0 is held at step 10."""

    def setUp(self):
        super().setUp()
        self.gate = Gate(self, 10)

    def submit(self, *words, options=()):
        command = shlex.join(map(str, [DDPRUN, *WORDS, "launch.workers=2", f"run.dir={self.run_dir}", *words]))
        script = self.folder / "job.sh"
        script.write_text(f"#!/bin/bash\nsrun {command}\n")
        return self.sbatch("-N2", "--ntasks-per-node=1", "--cpus-per-task=2", "--requeue", *options, script, env=self.gate.env)

    def sbatch(self, *words, env=None):
        output = ("--parsable", "--open-mode=append", f"--output={self.folder}/%j.out")
        done = subprocess.run(["sbatch", *output, *map(str, words)], cwd=self.folder, env=self.environment(env), capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def job(self, number):
        """{field: value}, as scontrol shows them."""
        return dict(re.findall(r"(\w+)=(\S*)", CLUSTER.run("scontrol", "show", "job", number)))

    def text(self, number):
        return "".join(path.read_text() for path in self.folder.glob(f"{number.partition('_')[0]}.out"))

    def wait_for_job(self, number, condition, what, seconds=60):
        try:
            self.wait_until(lambda: condition(self.job(number)), what, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.job(number)}\n{self.text(number)}") from None

    def wait_for_gate(self, number):
        self.wait_for_job(number, lambda _: self.gate.file.exists(), self.gate.what)

    def assert_job_ends(self, number, state, code):
        self.wait_for_job(number, lambda job: job["JobState"] == state, f"the end as {state}", seconds=120)
        self.assertEqual(self.job(number)["ExitCode"], code, self.text(number))
        self.assert_nothing_left()

    def take_nodes(self):
        """By a job that is more important; it holds them until the file that is returned is there."""
        release = self.folder / "release"
        self.sbatch("-p", "high", "-N2", "--exclusive", "--wrap", f"until [ -e {release} ]; do sleep 0.1; done")
        return release

    def signal(self, number):
        CLUSTER.run("scancel", "--signal=USR1", number, check=True)

    def preempt(self, number):
        """Until the job is in the queue again."""
        release = self.take_nodes()
        self.wait_for_requeue(number)
        self.assertEqual(summary(self.run_dir)["status"], "preempted")
        release.touch()

    def assert_ended_and_continued(self, number, end):
        """A job that is held at its gate, and ended so there."""
        self.wait_for_gate(number)
        end(number)
        self.wait_for_job(number, lambda job: job["Restarts"] == "1", "the job to be requeued")
        self.run_dir = self.run_dir.resolve()
        self.assert_it_continued(number)

    def wait_for_requeue(self, number):
        self.wait_for_job(number, lambda job: (job["JobState"], job["Restarts"]) == ("PENDING", "1"), "the job to be requeued")

    def assert_it_continued(self, number):
        self.assert_job_ends(number, "COMPLETED", "0:0")
        self.assertEqual(self.job(number)["Restarts"], "1")
        self.assertRegex(self.text(number), rf"resuming .*{re.escape(self.run_dir.name)}\n")
        self.assertRegex(self.text(number), r"resumed at step [1-9]")
        self.assertEqual(differences(self.run_dir, self.undisturbed()), {})

    def undisturbed(self):
        run = CLUSTER.folder / "undisturbed"
        if not run.exists():
            self.ddprun(*WORDS, LONG, "launch.workers=4", f"run.dir={run}")
        return run


class Jobs(JobTest):
    def test_a_preempted_job_saves_and_continues_when_its_turn_comes_again(self):
        self.assert_ended_and_continued(self.submit(LONG), self.preempt)

    def test_a_job_saves_and_ends_before_its_time_is_up(self):
        number = self.submit(LONG, "launch.end_margin_seconds=100", options=["--time=2"])
        self.assert_job_ends(number, "FAILED", "75:0")
        self.assertIn("the job's time is nearly over", self.text(number))
        self.assertEqual(summary(self.run_dir)["status"], "preempted")

    def test_a_requeued_job_saves_and_continues(self):
        number = self.submit(LONG)
        self.assert_ended_and_continued(number, lambda number: CLUSTER.run("scontrol", "requeue", number, check=True))

    def test_a_signal_saves_and_ends_the_job_with_75(self):
        number = self.submit(LONG)
        self.wait_for_gate(number)
        self.signal(number)
        self.assert_job_ends(number, "FAILED", "75:0")
        self.assertEqual(summary(self.run_dir)["status"], "preempted")
        self.assertTrue((self.run_dir / "checkpoints/last").exists())


class Requeue(JobTest):
    """launch.requeue: where Slurm would take the exit code of 75 for a failure."""

    def submit(self, *words, options=()):
        return super().submit("launch.requeue=true", *words, options=options)

    def test_a_preempted_job_is_requeued_once(self):
        self.assert_ended_and_continued(self.submit(LONG), self.preempt)

    def test_a_job_with_time_to_save_before_its_preemption(self):
        number = self.submit(LONG, options=["-p", "graceful"])
        self.assert_ended_and_continued(number, self.preempt)
        self.assertIn(f"asked Slurm to start job {number} again", self.text(number))

    def test_a_signalled_task_of_an_array(self):
        self.assert_ended_and_continued(f"{self.submit(LONG, options=['--array=3'])}_3", self.signal)

    def test_a_cancelled_job_stays_so(self):
        number = self.submit(LONG)
        self.wait_for_gate(number)
        CLUSTER.run("scancel", number, check=True)
        self.wait_for_job(number, lambda job: job["JobState"] == "CANCELLED", "its end")
        self.assert_nothing_left()
        self.assertEqual(self.job(number)["Restarts"], "0")
        self.assertIn("not requeued from here", self.text(number))

    def test_a_step_without_a_batch_job_is_reported(self):
        running = self.start_program("srun", "-n2", DDPRUN, *WORDS, f"run.dir={self.run_dir}", LONG, "launch.requeue=true",
                                     env=self.gate.env)
        self.gate.wait(running)
        CLUSTER.run("scancel", "--signal=USR1", "--user=root", check=True)
        self.assert_ends(running, 75)
        self.assertRegex(running.err(), r"error: scontrol requeue \d+: .*batch")


class Submit(JobTest):
    """`ddprun submit --slurm`: its script is what Slurm takes, and the job continues in the folder where it began."""

    NAME = "90 % of #it's"
    path = slurm.SYSTEM_PATH

    def environment(self, changes=None):
        return super().environment({"PATH": self.path} | (changes or {}))

    def submit(self, *words):
        done = self.ddprun("submit", "--slurm", *WORDS, LONG, "launch.workers=2", f"name={self.NAME}", "resources.nodes=2",
                           "resources.cpus_per_worker=1", "resources.time=10min", "resources.memory=100M", *words, env=self.gate.env)
        return re.fullmatch(r"Submitted batch job (\d+)\n", done.out())[1]

    def setUp(self):
        super().setUp()
        self.run_dir = self.folder / "outputs" / self.NAME / "latest"

    def text(self, number):
        path = self.folder / "outputs" / self.NAME / f"slurm-{number}.out"
        return path.read_text() if path.exists() else ""

    def test_it_trains_and_continues_after_a_signal(self):
        number = self.submit("launch.requeue=true", "resources.slurm=[--comment=two words, --partition=graceful]")
        self.wait_for_gate(number)
        job = CLUSTER.run("scontrol", "show", "job", number)
        for field in (f"JobName={self.NAME}", "NumNodes=2", "CPUs/Task=2", "TimeLimit=00:10:00", "MinMemoryNode=100M", "Requeue=1",
                      "Comment=two words", "Partition=graceful"):
            self.assertIn(field, job)
        self.assert_ended_and_continued(number, self.signal)

    def test_in_a_container_the_script_requeues(self):
        programs = self.folder / "programs"
        programs.mkdir()
        for name, script in (("apptainer", '[ "$1 $2" = "exec image.sif" ] && shift 2 && exec "$@"'), ("ddprun", f'exec {DDPRUN} "$@"')):
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
        self.path = f"{programs}:{slurm.SYSTEM_PATH}"
        self.assert_ended_and_continued(self.submit("launch.requeue=true", "resources.container=image.sif"), self.signal)

    def test_the_lines_of_setup_run_before_it_and_what_they_export_reaches_all(self):
        number = self.submit('resources.setup=["echo $SLURM_JOB_ID > setup", export NCCL_SOCKET_IFNAME=hsn]', "trainer.max_steps=12")
        self.wait_for_gate(number)
        self.assertEqual((self.folder / "setup").read_text(), f"{number}\n")
        for worker in self.workers().values():
            self.assertIn(b"NCCL_SOCKET_IFNAME=hsn\0", pathlib.Path(f"/proc/{worker}/environ").read_bytes())
        self.gate.open()
        self.run_dir = self.run_dir.resolve()
        self.assert_job_ends(number, "COMPLETED", "0:0")

    def test_a_line_of_setup_that_fails_ends_the_job(self):
        number = self.submit("resources.setup=[false]")
        self.assert_job_ends(number, "FAILED", "1:0")
        self.assertIn("ddprun: resources.setup: failed with 1: false", self.text(number))

    def test_what_slurm_refuses_is_reported(self):
        refused = self.ddprun("submit", "--slurm", *WORDS, "resources.slurm=[--partition=none]", code=1)
        self.assertIn("ddprun: error: sbatch: sbatch: error: invalid partition specified: none", refused.err())


if __name__ == "__main__":
    main(slurm.refusal())

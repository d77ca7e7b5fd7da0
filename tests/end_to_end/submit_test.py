# SPDX-License-Identifier: MIT
"""`ddprun submit` where there is no scheduler: what it prints, writes, checks and hands over."""

import subprocess
import unittest

from command import DDPRUN, CommandTest, peers_python

EXPERIMENT = "experiments/digits.yaml"
IMAGE = ("resources.image=registry/ddprun", "resources.claim=outputs")


class SubmitTest(CommandTest):
    def program(self, name, script):
        """A program of this name, and the PATH with nothing but it."""
        folder = self.folder / "programs"
        folder.mkdir(exist_ok=True)
        file = folder / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return {"PATH": str(folder)}

    def test_a_dry_run_prints_the_script_and_leaves_nothing(self):
        printed = self.ddprun("submit", "--slurm", "--dry-run", EXPERIMENT, "resources.gpus=4", "seed=7").out()
        self.assertIn("#SBATCH --gpus-per-node=4\n", printed)
        self.assertTrue(printed.endswith(f"\nsrun {DDPRUN} {EXPERIMENT} resources.gpus=4 seed=7\n"), printed)
        self.assertFalse((self.folder / "outputs").exists())

    def test_a_file_is_made_and_never_overwritten(self):
        self.ddprun("submit", "--kubernetes", "--dry-run", "--out", "job.yaml", EXPERIMENT, *IMAGE)
        self.assertIn("kind: Job\n", (self.folder / "job.yaml").read_text())
        refused = self.assert_refused("submit", "--slurm", "--dry-run", "--out", "job.yaml", EXPERIMENT)
        self.assertIn("job.yaml exists already", refused)

    def test_all_mistakes_are_told_before_the_queue(self):
        env = self.program("sbatch", "touch submitted")
        refused = self.assert_refused("submit", "--slurm", EXPERIMENT, "model.hiden=1", "resources.memory=much", env=env)
        self.assertIn("model.hiden: unknown key", refused)
        self.assertIn("resources.memory: expected a whole number", refused)
        self.assertFalse((self.folder / "submitted").exists())

    def test_a_scheduler_that_is_not_there_is_named(self):
        empty = {"PATH": str(self.folder / "programs")}
        self.assertIn("no program sbatch on PATH", self.assert_refused("submit", "--slurm", EXPERIMENT, env=empty))
        refused = self.assert_refused("submit", "--kubernetes", EXPERIMENT, *IMAGE, env=empty)
        self.assertIn("no program kubectl on PATH", refused)
        self.assertIn("submit needs --slurm or --kubernetes", self.assert_refused("submit", EXPERIMENT))

    def test_kubectl_gets_the_manifest(self):
        env = self.program("kubectl", '[ "$*" = "apply -f -" ] && read -r first && echo "job created: $first"')
        done = self.ddprun("submit", "--kubernetes", EXPERIMENT, *IMAGE, env=env)
        self.assertIn("job created: # Written by ddprun submit", done.out())

    def test_the_schemas_of_kubernetes_take_what_it_prints(self):
        python = peers_python()
        if not python:
            self.skipTest("no kubernetes-validate: DDPRUN_PEERS=1 tools/test installs it")
        large = ("resources.nodes=3", "resources.gpus=2", "resources.cpus_per_worker=4", "resources.memory=64G",
                 "resources.ephemeral_storage=20G", "resources.time=90min", "resources.user=1000")  # fmt: skip
        odd = ('resources.image="a \\"b\\" \\\\ # {c}: [d]"', 'resources.claim="123"', 'name="Größe: #1 [x] $(Y) 😀"', "resources.nodes=2")
        files = []
        for number, words in enumerate(((), large, odd)):
            files.append(f"{number}.yaml")
            self.ddprun("submit", "--kubernetes", "--dry-run", "--out", files[-1], EXPERIMENT, *IMAGE, *words)
        for version in ("1.27", "1.37"):
            checked = subprocess.run([python, "-m", "kubernetes_validate", "--strict", "-k", version, *files], cwd=self.folder,
                                     capture_output=True, text=True)  # fmt: skip
            said = checked.stdout + checked.stderr
            self.assertEqual(checked.returncode, 0, said)
            self.assertEqual(said.count("passed for resource"), 1 + 3 + 3, said)

    def test_lines_before_srun_reach_it_and_one_that_fails_ends_the_job(self):
        env = self.program("srun", 'echo "srun sees $SITE"')
        for lines, code, said in (("export SITE=here, 'test -n \"$SITE\"'", 0, "srun sees here\n"), ("test -e nothing", 1, "")):
            script = self.ddprun("submit", "--slurm", "--dry-run", EXPERIMENT, f"resources.setup=[{lines}]").out()
            ran = subprocess.run(["/bin/bash"], input=script.replace(f"srun {DDPRUN}", "srun ddprun"), env=env, capture_output=True, text=True)
            self.assertEqual((ran.returncode, ran.stdout), (code, said), ran.stderr)
        self.assertEqual(ran.stderr, "ddprun: resources.setup: failed with 1: test -e nothing\n")
        refused = self.assert_refused("submit", "--slurm", "--dry-run", EXPERIMENT, 'resources.setup=["a\\nb"]')
        self.assertIn("resources.setup: expected lines of bash, one per text", refused)

    def test_keys_of_the_other_scheduler_are_said_to_do_nothing(self):
        said = self.ddprun("submit", "--kubernetes", "--dry-run", EXPERIMENT, *IMAGE, "resources.setup=[module load CUDA]").err()
        self.assertIn("warning: resources.setup has no effect with --kubernetes: it is for Slurm", said)
        said = self.ddprun("submit", "--slurm", "--dry-run", EXPERIMENT, "resources.claim=outputs").err()
        self.assertIn("warning: resources.claim has no effect with --slurm: it is for Kubernetes", said)

    def test_what_kubernetes_needs_is_asked_for(self):
        self.assertIn("resources.image: missing", self.assert_refused("submit", "--kubernetes", "--dry-run", EXPERIMENT))


if __name__ == "__main__":
    unittest.main()

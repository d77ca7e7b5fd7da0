# SPDX-License-Identifier: MIT
"""`ddprun submit` where there is no scheduler: what it prints, writes, checks and hands over."""

import pathlib
import re
import unittest

from command import DDPRUN, CommandTest

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

    def test_the_shipped_manifest_is_what_it_prints(self):
        lines = (pathlib.Path(__file__).parents[2] / "tools/kubernetes/job.yaml").read_text().splitlines()
        command = lines[2:4]
        words = " ".join(line.strip("# ") for line in command).split()
        self.assertEqual(words[0], "ddprun")
        shipped = [line for line in lines if not line.startswith("#")]
        printed = re.sub('"[0-9a-f]{64}"', '"what openssl rand -hex 32 prints"', self.ddprun(*words[1:]).out())
        printed = re.sub("olivia-[0-9a-f]{8}", "olivia-00000000", printed).splitlines()
        self.assertEqual([line for line in printed if not line.startswith("#")], shipped)

    def test_what_kubernetes_needs_is_asked_for(self):
        self.assertIn("resources.image: missing", self.assert_refused("submit", "--kubernetes", "--dry-run", EXPERIMENT))


if __name__ == "__main__":
    unittest.main()

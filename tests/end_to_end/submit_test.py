# SPDX-License-Identifier: MIT
"""`ddprun submit` where there is no scheduler: what it prints, writes, checks and hands over; and the manifest for Kubernetes."""

import json
import pathlib
import re
import subprocess
import unittest

from command import DDPRUN, SMALL, CommandTest, free_port, peers_python, summary

EXPERIMENT = "experiments/digits.yaml"


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
        write = ("submit", "--slurm", "--dry-run", "--out", "job.sh", EXPERIMENT)
        self.ddprun(*write)
        self.assertIn("\nsrun ", (self.folder / "job.sh").read_text())
        self.assertIn("job.sh exists already", self.assert_refused(*write))

    def test_all_mistakes_are_reported_before_the_queue(self):
        env = self.program("sbatch", "touch submitted")
        refused = self.assert_refused("submit", "--slurm", EXPERIMENT, "model.hiden=1", "resources.memory=much", env=env)
        self.assertIn("model.hiden: unknown key", refused)
        self.assertIn("resources.memory: expected a whole number", refused)
        self.assertFalse((self.folder / "submitted").exists())

    def test_a_scheduler_that_is_not_there_is_named(self):
        empty = {"PATH": str(self.folder / "programs")}
        self.assertIn("no program sbatch on PATH", self.assert_refused("submit", "--slurm", EXPERIMENT, env=empty))
        self.assertIn("submit needs --slurm", self.assert_refused("submit", EXPERIMENT))

    def test_sbatch_gets_the_script(self):
        env = self.program("sbatch", 'read -r first && echo "submitted: $first"')
        self.assertEqual(self.ddprun("submit", "--slurm", EXPERIMENT, env=env).out(), "submitted: #!/bin/bash\n")

    def test_lines_before_srun_reach_it_and_one_that_fails_ends_the_job(self):
        env = self.program("srun", 'echo "srun sees $SITE"')
        for lines, code, said in (("export SITE=here, 'test -n \"$SITE\"'", 0, "srun sees here\n"), ("test -e nothing", 1, "")):
            script = self.ddprun("submit", "--slurm", "--dry-run", EXPERIMENT, f"resources.setup=[{lines}]").out()
            ran = subprocess.run(["/bin/bash"], input=script.replace(f"srun {DDPRUN}", "srun ddprun"), env=env, capture_output=True, text=True)
            self.assertEqual((ran.returncode, ran.stdout), (code, said), ran.stderr)
        self.assertEqual(ran.stderr, "ddprun: resources.setup: failed with 1: test -e nothing\n")
        refused = self.assert_refused("submit", "--slurm", "--dry-run", EXPERIMENT, 'resources.setup=["a\\nb"]')
        self.assertIn("resources.setup: expected lines of bash, one per text", refused)


class KubernetesPage(CommandTest):
    """The manifest of docs/launching.md; what its parts call one another is tests/submit/kubernetes_page_test.cpp's."""

    def setUp(self):
        super().setUp()
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs/launching.md").read_text()
        self.manifest = re.search(r"^## Kubernetes\n.*?^```yaml\n(.*?)^```\n", page, re.MULTILINE | re.DOTALL)[1]

    def test_its_pods_train_one_run(self):
        command = json.loads(re.search(r" command: (\[.*?\]) ", self.manifest, re.DOTALL)[1])
        place = {"experiments/mnist.yaml": SMALL[0], "mnist-1-0.mnist-1:29400": f"127.0.0.1:{free_port()}", "/outputs/": f"{self.folder}/",
                 "$(DDPRUN_JOB)": "id"}  # fmt: skip
        pods = []
        for index in "01":
            words = [self.filled(word, place | {"$(JOB_COMPLETION_INDEX)": index}) for word in command[1:]]
            pods.append(self.start(*words, *SMALL[1:], "model=mlp", env={"DDPRUN_TOKEN": "TOKEN"}))
        self.assertEqual([pod.wait() for pod in pods], [0, 0], "\n".join(pod.text() for pod in pods))
        self.assertEqual(summary(self.folder / "mnist/id")["nodes"], 2)

    def filled(self, word, places):
        for name, value in places.items():
            word = word.replace(name, value)
        return word

    def test_the_schemas_of_kubernetes_take_it(self):
        python = peers_python()
        if not python:
            self.skipTest("no kubernetes-validate: DDPRUN_PEERS=1 tools/test installs it")
        (self.folder / "job.yaml").write_text(self.manifest)
        for version in ("1.27", "1.37"):
            checked = subprocess.run([python, "-m", "kubernetes_validate", "--strict", "-k", version, "job.yaml"], cwd=self.folder,
                                     capture_output=True, text=True)  # fmt: skip
            said = checked.stdout + checked.stderr
            self.assertEqual(checked.returncode, 0, said)
            self.assertEqual(said.count("passed for resource"), 3, said)


if __name__ == "__main__":
    unittest.main()

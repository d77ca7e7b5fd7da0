# SPDX-License-Identifier: MIT
"""trainer.shard_optimizer: workers that share the optimizer leave the files of workers that do not, bit for bit."""

import signal
import unittest

import eager
import torch

from command import DDPRUN, SMALL, CommandTest, checkpoint_steps, differences

WORDS = [*SMALL, "trainer.global_batch=96", "trainer.ema_decay=0.9", "checkpoint.every=4st", "checkpoint.keep=9"]
TRAININGS = {
    "sgd": (4, [*WORDS, "model=convnet_bn", "optimizer.momentum=0.9", "trainer.clip_norm=0.5",
                "+pretrained={freeze: ['layer1.*', 'layer2.0.*'], unfreeze: {5st: 'layer1.*'}}"]),
    "adamw": (3, [*WORDS, "model=mlp", "predictions={num_batches_to_log: 1}", "optimizer=adamw", "trainer.micro_batch=10", "trainer.precision=bf16"]),
    "masters": (3, [*WORDS, "model=convnet_bn", "optimizer=adamw", "trainer.precision=bf16_master", "trainer.clip_norm=0.5"]),
    "transformer": (3, ["experiments/text.yaml", "model.width=32", "model.heads=2", "dataset.context=16", "launch.device=cpu", "launch.threads=1",
                        "trainer.max_steps=8", "trainer.ema_decay=0.9", "checkpoint.every=4st", "loggers=[jsonl]"]),
    "muon": (2, [*WORDS, "model=convnet_bn", "optimizer=muon", "trainer.on_nonfinite=skip"]),
}  # fmt: skip
FILES = ("model", "optimizer", "ema")


class ShardOptimizer(CommandTest):
    def kept(self, run):
        return {name: (self.folder / run / f"checkpoints/last/{name}.safetensors").read_bytes() for name in FILES}

    def assert_same(self, run, other):
        mine, others = self.kept(run), self.kept(other)
        self.assertEqual([name for name in FILES if mine[name] != others[name]], [])

    def test_it_changes_no_bit_of_weights_state_averages_and_rows(self):
        for name, (workers, words) in TRAININGS.items():
            with self.subTest(name):
                words = [*words, f"launch.workers={workers}"]
                self.ddprun(*words, f"run.dir={name}")
                shared = self.ddprun(*words, f"run.dir={name}_shared", "trainer.shard_optimizer=true")
                self.assertRegex(shared.err(), rf"trainer.shard_optimizer: {workers} workers share the optimizer's step and state: [\d, to]+ of [\d,]+ numbers each")
                self.assert_same(name, f"{name}_shared")
                self.assertEqual(differences(self.folder / name, self.folder / f"{name}_shared"), {})

    def export(self, norm):
        torch.manual_seed(0)
        blocks = (torch.nn.Sequential(torch.nn.Linear(24, 24), norm(24), torch.nn.ReLU()) for _ in range(4))
        training = eager.Training(torch.nn.Sequential(torch.nn.Linear(12, 24), *blocks, torch.nn.Linear(24, 5)), ["input=12"], self.folder)
        training.export()
        training.experiment()
        return ["net.yaml", "launch.workers=3", "trainer.ema_decay=0.9", "trainer.global_batch=12"]

    def test_an_exported_network_reads_each_weight_once_it_has_arrived(self):
        words = [*self.export(torch.nn.BatchNorm1d), "trainer.sync_batchnorm=true"]
        for run, shared in (("whole", "false"), ("shared", "true")):
            self.ddprun(*words, f"run.dir={run}", f"trainer.shard_optimizer={shared}")
        self.assert_same("whole", "shared")
        self.assertEqual(differences(self.folder / "whole", self.folder / "shared"), {})

    def test_a_worker_that_is_killed_while_a_network_waits_for_its_weights_is_restarted(self):
        words = [*self.export(torch.nn.LayerNorm), "trainer.shard_optimizer=true", "checkpoint.every=2st"]
        self.ddprun(*words, "run.dir=whole")
        killed = self.ddprun(*words, "run.dir=killed", "launch.max_restarts=1", env={"DDPRUN_FAULT": "kill:computing:5:0"})
        self.assertIn("rank 0 failed first: killed by SIGKILL", killed.err())
        self.assert_same("whole", "killed")

    def test_killed_it_goes_on_without_sharing_and_the_other_way_round(self):
        for name, before, after in (("adamw", "true", "false"), ("adamw", "false", "true"), ("masters", "true", "false")):
            with self.subTest(name, before=before):
                workers, words = TRAININGS[name]
                words = [*words, f"launch.workers={workers}", "launch.max_restarts=0"]
                whole, run = f"{name}_{after}", f"{name}_{before}_{after}"
                self.ddprun(*words, f"run.dir={whole}", f"trainer.shard_optimizer={after}")
                held = self.start_held(10, *words, f"run.dir={run}", f"trainer.shard_optimizer={before}", rank=1)
                self.kill_once_saved(held, run, 8)
                resumed = self.ddprun("resume", run, f"trainer.shard_optimizer={after}")
                self.assertRegex(resumed.out(), r"resumed at step 8\n")
                self.assert_same(whole, run)

    def test_a_worker_that_is_killed_while_all_write_a_checkpoint_is_named_and_the_one_before_counts(self):
        workers, words = TRAININGS["adamw"]
        words = [*words, f"launch.workers={workers}", "launch.max_restarts=0", "trainer.shard_optimizer=true"]
        self.ddprun(*words, "run.dir=whole")
        for point, rank in (("created", 0), ("own_part", 2), ("compared", 0)):
            with self.subTest(point):
                killed = self.ddprun(*words, f"run.dir={point}", env={"DDPRUN_FAULT": f"kill:{point}:8:{rank}"}, code=128 + signal.SIGKILL)
                self.assertIn(f"rank {rank} failed first: killed by SIGKILL", killed.err())
                self.assert_nothing_left()
                self.assertRegex(self.ddprun("resume", point).out(), r"resumed at step 7\n")
                self.assert_same("whole", point)
                self.assertEqual(list((self.folder / point / "checkpoints").glob("*.tmp")), [])

    def test_a_checkpoint_that_one_worker_cannot_write_is_an_error_of_all(self):
        workers, words = TRAININGS["adamw"]
        failed = self.ddprun(*words, f"launch.workers={workers}", "run.dir=run", "trainer.shard_optimizer=true",
                             env={"DDPRUN_FAULT": "throw:own_part:8:1"}, code=1)
        self.assertIn("cannot save the checkpoint of step 8: an injected fault", failed.err())
        self.assertEqual(checkpoint_steps(self.folder / "run"), [4, 7])
        self.assertEqual(list((self.folder / "run/checkpoints").glob("*.tmp")), [])
        self.assertRegex(self.ddprun("resume", "run").out(), r"resumed at step 7\n")

    def test_the_states_of_all_are_recorded_and_compared(self):
        """A step that is made again without sharing leaves what it has left with it."""
        workers, words = TRAININGS["adamw"]
        for run, shared in (("a", "true"), ("b", "false")):
            self.ddprun(*words, f"launch.workers={workers}", "run.dir=" + run, f"trainer.shard_optimizer={shared}")
            self.ddprun("replay", run, "--step", "6", "--out", f"{run}.json")
        self.assertIn("the same", self.ddprun("diff", "a.json", "b.json").out())

    def test_one_worker_says_that_it_shares_with_nobody(self):
        self.assertIn("a single worker steps all parameters", self.ddprun(*WORDS, "model=mlp", "launch.workers=1", "trainer.max_steps=1",
                                                                          "trainer.shard_optimizer=true").err())  # fmt: skip

    def test_check_says_what_a_worker_takes(self):
        def optimizer(*words):
            return self.ddprun("check", *SMALL, "model=mlp", "optimizer=adamw", "launch.workers=4", *words).out()

        self.assertRegex(optimizer(), r"optimizer 814 kB, activations")
        self.assertRegex(optimizer("trainer.shard_optimizer=true"), r"optimizer 803 kB \(shared by 4 workers\), activations")

    def test_an_optimizer_that_needs_all_parameters_at_once_is_refused_at_the_key(self):
        (self.folder / "e.yaml").write_text(f"name: e\ndefaults: [experiments/digits]\nplugin_path: [{DDPRUN.parent.parent}/tests/fault_plugins]\n"
                                            "trainer:\n  shard_optimizer: true\n")  # fmt: skip
        words = ["e.yaml", "optimizer=brittle_optimizer", "launch.workers=2", *SMALL[1:]]
        for command in ([], ["check"]):
            refused = self.ddprun(*command, *words, code=2).err()
            self.assertIn("e.yaml:5:20: trainer.shard_optimizer: this optimizer's step needs all parameters at once", refused)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""trainer.shards: the same bits on any number of workers, as files and rows have them."""

import hashlib
import unittest

from command import SMALL, CommandTest, differences, results, summary

# 130 samples in batches of 48, the last of 34. Rows of 2 steps, so that a run may stop between two of them.
WORDS = [*SMALL, "trainer.shards=6", "trainer.global_batch=48", "dataset.train_size=130", "dataset.val_size=90", "dataset.test_size=50",
         "trainer.eval_batch=32", "trainer.prefetch_threads=0"]
CONVNET = [*WORDS, "model=convnet_bn", "schedule={name: plateau, patience: 0, monitor: val/loss}", "trainer.ema_decay=0.9"]
DROPOUT = [*WORDS, "model=convnet", "trainer.mixup=0.3", "optimizer=adamw", "trainer.clip_norm=0.5", "objective.metrics=[accuracy, top3, f1]"]
FEW = [*WORDS, "model=mlp", "model.hidden=16", "trainer.precision=bf16", "trainer.global_batch=64"]  # the last batch: 2 samples for 6 shards
FILES = ("model", "optimizer", "ema")


def digests(run):
    """{file: SHA-256}, of the last checkpoint."""
    files = {name: run / f"checkpoints/last/{name}.safetensors" for name in FILES}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items() if path.exists()}


class SameBits(CommandTest):
    def train(self, name, words, *more, workers=1, nodes=1):
        run = self.folder / name
        launchers = self.start_nodes(nodes, workers, *words, f"run.dir={run}", *more)
        for launcher in launchers:
            self.assertEqual(launcher.wait(), 0, launcher.text())
        return run

    def assert_same(self, run, other):
        self.assertEqual(digests(run), digests(other))
        self.assertEqual(differences(run, other), {})
        self.assertEqual(summary(run)["test_correct"], summary(other)["test_correct"])

    def test_weights_optimizer_averages_and_rows_on_one_to_four_workers(self):
        for name, words, worlds in (("convnet_bn", CONVNET, (2, 4)), ("dropout", DROPOUT, (3,)), ("few", FEW, (3,))):
            alone = self.train(name, words)
            self.assertEqual(set(digests(alone)), {"model", "optimizer"} | ({"ema"} if words is CONVNET else set()))
            for workers in worlds:
                with self.subTest(name=name, workers=workers):
                    self.assert_same(self.train(f"{name}{workers}", words, workers=workers), alone)
            if words is CONVNET:
                self.elastic(alone)

    def elastic(self, whole):
        """Two launchers with 2 workers in all, then 5 workers, then 1, each for some steps, which end between rows and between epochs."""
        run = self.train("elastic", CONVNET, "trainer.max_steps=1", workers=1, nodes=2)
        self.ddprun("resume", run, "trainer.max_steps=3", "launch.workers=5")
        self.ddprun("resume", run, "trainer.max_steps=1000", "launch.workers=1")
        self.assertEqual(digests(run), digests(whole))
        mine, others = results(run), results(whole)
        last = max(step for _, step in others)
        self.assertEqual([mine[key] for key in mine if key[1] == last], [others[key] for key in others if key[1] == last])

    def test_what_cannot_keep_the_promise_is_refused_at_its_key(self):
        (self.folder / "e.yaml").write_text("name: e\ndefaults: [experiments/digits]\ntrainer:\n  shards: 4\n  sync_batchnorm: true\n")
        self.assertIn("e.yaml:5:19: trainer.sync_batchnorm: cannot be combined with shards: ", self.assert_refused("e.yaml"))
        self.assertIn("trainer.shards: 4 shards cannot be shared by 5 workers", self.assert_refused(*SMALL, "trainer.shards=4", "launch.workers=5"))
        threads = self.assert_refused(*SMALL, "trainer.shards=4", "launch.threads=2", env={"OMP_THREAD_LIMIT": "1"})
        self.assertIn("launch.threads: 2 for each worker, but OMP_THREAD_LIMIT=1 may give it fewer", threads)

    def test_a_run_keeps_its_shards_and_tells_of_other_threads(self):
        run = self.train("run", FEW, "trainer.max_steps=1")
        for words in (["resume", run], [*FEW, f"checkpoint.resume={run}"]):
            refused = self.ddprun(*words, "trainer.shards=4", code=2).err()
            self.assertIn("trainer.shards=4: trainer.shards: a resumed run cannot change it: the bits of its steps follow from it", refused)
        self.assertIn("launch.threads is 2, but ", self.ddprun("resume", run, "trainer.max_steps=2", "launch.threads=2").err())

    def test_check_compares_one_worker_with_two(self):
        exact = self.ddprun("check", "--exact", *FEW).out()
        self.assertRegex(exact, r"\nExact: 5 steps on 1 and on 2 workers end with the same bits in all \d+ tensors of weights, ")
        other = self.ddprun("check", "--exact", *FEW, "trainer.shards=0", "trainer.precision=fp32", code=1).out()
        self.assertRegex(other, r"\nNot exact: 5 steps .* end with other bits in \d+ of \d+ tensors:\n  \S+: \d+ of \d+ numbers, by up to ")
        self.assertIn("Without trainer.shards", other)
        self.assertIn("--exact: training on 2 workers ended with 2:\n",
                      self.ddprun("check", "--exact", *FEW, "trainer.shards=1", code=2).err())
        self.assertFalse((self.folder / "outputs").exists())
        self.assertIn("--no-data excludes --exact", self.ddprun("check", "--exact", "--no-data", *FEW, code=2).err())

    def test_a_machine_that_computes_other_bits_is_named_before_the_first_step(self):
        plain = {"ATEN_CPU_CAPABILITY": "default"}  # as an old processor, which has no vectors
        launchers = self.start_nodes(2, 1, *FEW, "run.dir=run", env=[{}, plain])
        for launcher in launchers:
            self.assertEqual(launcher.wait(), 1, launcher.text())
        self.assertRegex(launchers[0].err(), r"trainer.shards: not all workers compute the same bits.* Rank 0: .*; other bits has rank 1: "
                         r".*, DEFAULT, 1 thread, LibTorch .*ATEN_CPU_CAPABILITY=default\. Train on machines of one kind")
        self.ddprun(*FEW, "trainer.max_steps=1", "run.dir=one")
        self.assertNotIn("other bits", self.ddprun("resume", "one", "trainer.max_steps=2", "launch.workers=2").err())
        self.assertRegex(self.ddprun("resume", "one", "trainer.max_steps=3", env=plain).err(),
                         "this machine computes other bits than the one that the run was on.* Now: .*DEFAULT.*; then: ")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""The number of workers changes the speed and nothing else: within rounding, as each key that only changes the order of sums; and with
trainer.shards in no bit of files and rows."""

import os
import random
import shutil
import signal
import unittest

import torch

import weights
from command import SMALL, CommandTest, Gate, free_port, losses_of, nightly, results, summary

# 130 samples in batches of 48, the last of 34. Rows of 2 steps, so that a run may stop between two of them.
WORDS = [*SMALL, "trainer.shards=6", "trainer.global_batch=48", "dataset.train_size=130", "dataset.val_size=90", "dataset.test_size=50",
         "trainer.eval_batch=32", "trainer.prefetch_threads=0"]
CONVNET = [*WORDS, "model=convnet_bn", "schedule={name: plateau, patience: 0, monitor: val/loss}", "trainer.ema_decay=0.9"]
DROPOUT = [*WORDS, "model=convnet", "trainer.mixup=0.3", "optimizer=adamw", "trainer.clip_norm=0.5", "objective.metrics=[accuracy, top3, f1]"]
FEW = [*WORDS, "model=mlp", "model.hidden=16", "trainer.precision=bf16", "trainer.global_batch=64"]  # the last batch: 2 samples for 6 shards
LONG = [*CONVNET, "trainer.max_epochs=4", "checkpoint.every=1st", "launch.max_restarts=2", "launch.restart_seconds=0.1", "launch.grace_seconds=5"]
STEPS = 12  # of them
SCHEDULES = int(os.environ.get("SAME_BITS_SCHEDULES", "50"))
SEED = int(os.environ.get("SAME_BITS_SEED", "1"))
IMAGES = [*WORDS, "trainer.shards=8", "dataset.train_size=100"]
TEXT = ["experiments/text.yaml", "model.layers=1", "model.width=16", "model.heads=2", "dataset.context=16", "launch.device=cpu"]
NETWORKS = {
    "mlp": [*IMAGES, "model=mlp", "model.hidden=32"],
    "convnet": [*IMAGES, "model=convnet"],
    "convnet_bn": [*IMAGES, "model=convnet_bn"],
    "resnet18": [*IMAGES, "model=resnet", "trainer.global_batch=16"],
    "transformer": [*TEXT, "trainer.shards=8", "model.dropout=0.1"],
}
# 610 samples in batches of 96: the last of each epoch is of 34, which neither 3 nor 4 workers share evenly. Of 150,000 inputs of
# ReLUs one may lie so near to 0 that rounding switches it, which moves weights by 1e-3: with seed 42 so on one kind of processor.
ROUNDED = [*SMALL, "seed=1", "model=mlp", "model.hidden=32", "trainer.global_batch=96", "trainer.max_epochs=100", "trainer.max_steps=50"]
LAYOUT = [*SMALL, "model=convnet_bn", "optimizer.lr=0.005", "trainer.log_every=1", "launch.workers=2"]
OTHER_ORDERS = {  # the words of the one and of the other
    "the order of images in memory": ["trainer.memory_format=channels_first", "trainer.memory_format=channels_last"],
    "layers in one pass": ["trainer.fused_layers=true", "trainer.fused_layers=false"],
}


class Worlds(CommandTest):
    def distance(self, run, other):
        """The largest difference of a parameter, relative to the largest parameter of its tensor."""
        mine, others = (weights.load(path / "checkpoints/last/model.safetensors") for path in (run, other))
        self.assertEqual(mine.keys(), others.keys())
        return max(float((mine[name] - others[name]).abs().max() / others[name].abs().max()) for name in mine)

    def test_one_to_four_workers_train_the_same_within_rounding(self):
        alone = self.assert_worlds_alike(ROUNDED, (2, 3, 4), delta=1e-4)
        self.assertEqual(summary(alone)["samples"], 7 * 610 + 96)
        for workers in (2, 3, 4):
            run = self.folder / f"run{workers}"
            self.assertEqual(summary(run)["samples"], summary(alone)["samples"])
            self.assertLess(self.distance(run, alone), 1e-5)
        # A batch that differs in one sample of a hundred moves the weights by far more than rounding does.
        self.assertGreater(self.distance(self.train("other", *ROUNDED, "launch.workers=1", "trainer.global_batch=95"), alone), 1e-3)

    def test_the_classes_are_drawn_alike_in_equal_shares(self):
        words = [*SMALL, "model=mlp", "trainer.global_batch=48", "trainer.verify_shards=true", "trainer.sampling={balance: class}"]
        self.assert_worlds_alike(words, (3,), delta=1e-5)

    def test_fast_paths_that_sum_in_another_order_change_the_rounding_alone(self):
        for name, keys in OTHER_ORDERS.items():
            with self.subTest(name):
                one, other = (torch.tensor(losses_of(self.train(key, *LAYOUT, "trainer.memory_format=channels_last", key))) for key in keys)
                self.assertFalse(one.equal(other), "the key changes nothing")
                torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3)


class SameBitsTest(CommandTest):
    def train(self, name, words, *more, workers=1, nodes=1):
        run = self.folder / name
        launchers = self.start_nodes(nodes, workers, *words, f"run.dir={run}", *more)
        for launcher in launchers:
            self.assertEqual(launcher.wait(600), 0, launcher.text())
        return run

    def assert_same_last(self, run, whole):
        """Of a run that was interrupted: its weights, and its last rows."""
        self.assert_same_files(run, whole)
        mine, others = results(run), results(whole)
        last = max(step for _, step in others)
        self.assertEqual([mine[key] for key in mine if key[1] == last], [others[key] for key in others if key[1] == last])


class SameBits(SameBitsTest):
    def test_weights_optimizer_averages_and_rows_on_one_to_four_workers(self):
        for name, words, worlds in (("convnet_bn", CONVNET, (2, 4)), ("dropout", DROPOUT, (3,)), ("few", FEW, (3,))):
            alone = self.train(name, words)
            for workers in worlds:
                with self.subTest(name=name, workers=workers):
                    shared = f"trainer.shard_optimizer={str(workers > 2).lower()}"
                    self.assert_same_end(self.train(f"{name}{workers}", words, shared, workers=workers), alone)
            if words is CONVNET:
                self.elastic(alone)

    def elastic(self, whole):
        """Two launchers with 2 workers in all, then 5 workers, then 1, each for some steps, which end between rows and between epochs."""
        run = self.train("elastic", CONVNET, "trainer.max_steps=1", workers=1, nodes=2)
        self.ddprun("resume", run, "trainer.max_steps=3", "launch.workers=5", "trainer.shard_optimizer=true")
        self.ddprun("resume", run, "trainer.max_steps=1000", "launch.workers=1")
        self.assert_same_last(run, whole)

    def test_the_exchange_and_the_comparison_of_machines_take_little_memory(self):
        """The weights take 67 MB in matrices of 4 MB: no copy of them all, beside what training itself needs."""
        words = [*SMALL, "model=mlp", "model.hidden=1024", "model.layers=16", "trainer.global_batch=4", "trainer.max_steps=3", "launch.workers=2"]
        for run in ("without", "with"):
            self.ddprun(*words, f"run.dir={run}", f"trainer.shards={2 if run == 'with' else 0}")
        without, shards = (summary(self.folder / run)["peak_rss_bytes"] for run in ("without", "with"))
        self.assertLess(shards - without, 30_000_000)

    def test_what_cannot_keep_the_promise_is_refused_at_its_key(self):
        threads = self.assert_refused(*SMALL, "trainer.shards=4", "launch.threads=2", env={"OMP_THREAD_LIMIT": "1"})
        self.assertIn("launch.threads: 2 for each worker, but OMP_THREAD_LIMIT=1 may give it fewer", threads)

    def test_a_run_keeps_its_shards_and_reports_other_threads(self):
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


@nightly
class EveryNetwork(SameBitsTest):
    def test_in_both_precisions_on_one_to_eight_workers(self):
        for name, words in NETWORKS.items():
            for precision in ("fp32", "bf16"):
                few_steps = [*words, f"trainer.precision={precision}", "trainer.max_steps=4", "trainer.ema_decay=0.9"]
                alone = self.train(f"{name}_{precision}_1", few_steps)
                for workers in (2, 3, 4, 8):
                    with self.subTest(name=name, precision=precision, workers=workers):
                        self.assert_same_end(self.train(f"{name}_{precision}_{workers}", few_steps, workers=workers), alone)

    @unittest.skipUnless(os.environ.get("DDPRUN_DATA"), "DDPRUN_DATA is not set: MNIST is not here")
    def test_an_epoch_of_mnist_on_one_two_three_and_eight_workers(self):
        words = ["experiments/mnist.yaml", "trainer=reproducible", "trainer.max_epochs=1", "launch.device=cpu",
                 f"dataset.root={os.environ['DDPRUN_DATA']}/mnist"]
        alone = self.train("alone", words)
        for workers in (2, 3, 8):
            self.assert_same_end(self.train(f"run{workers}", words, workers=workers), alone)


@nightly
class Schedules(SameBitsTest):
    """Workers and launchers are killed, nodes leave and join, and what has ended continues with others: SAME_BITS_SCHEDULES times."""

    def test_whatever_happens_the_end_has_the_bits_of_one_worker_alone(self):
        whole = self.train("whole", LONG)
        for number in range(SCHEDULES):
            with self.subTest(seed=SEED, schedule=number):
                run = self.folder / f"run{number}"
                self.live(run, random.Random(f"{SEED} {number}"))
                self.assert_same_last(run, whole)
                shutil.rmtree(run)

    def live(self, run, chance):
        for leg in range(20):
            launchers = self.leg(run, chance, disturbed=leg < 3)
            if (run / "summary.json").exists() and summary(run)["status"] == "completed":
                return
        self.fail(f"it never ended\n{launchers[-1].text()}")

    def leg(self, run, chance, disturbed):
        place = (f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--nnodes=1:3")
        if not (run / "checkpoints/last").exists():
            shutil.rmtree(run, ignore_errors=True)
        words = ["resume", run] if run.exists() else ["run", *LONG, f"run.dir={run}"]
        gate = Gate(self, chance.randrange(2, STEPS))

        def start():
            return self.start(*words, *place, f"--nproc-per-node={chance.choice((1, 2))}", env=gate.env if disturbed else None)

        launchers = [start() for _ in range(chance.randint(1, 3))]
        if disturbed:
            self.wait_until(lambda: gate.file.exists() or all(launcher.ended() for launcher in launchers), "the gate", seconds=120)
            self.disturb(launchers, chance, start)
            gate.open()
        for launcher in launchers:
            launcher.wait(300)
        return launchers

    def disturb(self, launchers, chance, start):
        what = chance.choice(("worker", "launcher", "leaves", "joins"))
        if what == "worker":
            workers = sorted(self.workers().items())
            if workers:
                os.kill(chance.choice(workers)[1], signal.SIGKILL)
        elif what == "joins":
            launchers.append(start())
        else:
            chance.choice(launchers).send(signal.SIGKILL if what == "launcher" else signal.SIGTERM)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()

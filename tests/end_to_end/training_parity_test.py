# SPDX-License-Identifier: MIT
"""The training of plain PyTorch, step by step: same network, data, order, first weights and settings give the same losses.

One feature at a time, on a network small enough that 50 steps take a moment. PyTorch trains on the whole batch in one process;
ddprun with one, two or three workers.
"""

import dataclasses
import functools
import typing
import unittest

import torch
from torch import nn
from torch.optim import lr_scheduler

import eager
import weights
from command import NIGHTLY, SMALL, CommandTest, all_rows, losses_of
from networks import ConvNetBn

STEPS = 50
SAMPLES, BATCH = 157, 24  # seven batches an epoch, the last one of 13
EPOCH = 7
MASTERS = [*SMALL, "model=convnet_bn", "optimizer=adamw", "launch.workers=1", "trainer.ema_decay=0.9"]


class Mlp(nn.Module):
    """plugins/models/mlp with one hidden layer."""

    def __init__(self):
        super().__init__()
        self.hidden1 = nn.Linear(12, 32)
        self.output = nn.Linear(32, 5)

    def forward(self, inputs):
        return self.output(torch.relu(self.hidden1(inputs)))


def sgd(parameters, lr=0.1):
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)


def in_bf16(network, inputs):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return network(inputs)


@dataclasses.dataclass(frozen=True)
class Row:
    words: tuple = ()
    workers: tuple = (2,)
    optimizer: typing.Callable = sgd
    loss: typing.Callable = nn.functional.cross_entropy
    forward: typing.Callable = lambda network, inputs: network(inputs)
    before_update: typing.Callable = lambda parameters: None
    tolerance: float = 2e-5


PLAIN = Row(workers=(1, 2, 3))
FEATURES = {
    "accumulation": Row(("trainer.micro_batch=3",)),  # four passes of each worker
    "adamw": Row(("optimizer=adamw", "optimizer.lr=0.01", "optimizer.weight_decay=0.1"), optimizer=adamw),
    "clip_norm": Row(("trainer.clip_norm=0.1",), before_update=lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.1)),
    "clip_value": Row(("trainer.clip_value=0.01",), (3,), before_update=lambda parameters: nn.utils.clip_grad_value_(parameters, 0.01)),
    "label_smoothing": Row(("+objective.label_smoothing=0.1",), loss=functools.partial(nn.functional.cross_entropy, label_smoothing=0.1)),
    "bf16": Row(("trainer.precision=bf16",), forward=in_bf16, tolerance=0.02),
}


def warm_cosine(optimizer):
    rise = lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=2 * EPOCH)
    fall = lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS - 2 * EPOCH, eta_min=0.01)
    return lr_scheduler.SequentialLR(optimizer, [rise, fall], milestones=[2 * EPOCH])


SCHEDULES = {  # words: PyTorch's, and whether it steps once an epoch
    ("step", "+schedule.every=2ep", "+schedule.gamma=0.5"): (lambda o: lr_scheduler.StepLR(o, 2, 0.5), True),
    ("multistep", "+schedule.milestones=[1ep,20st]"): (lambda o: lr_scheduler.MultiStepLR(o, [7, 20]), False),
    ("exponential", "+schedule.gamma=0.7"): (lambda o: lr_scheduler.ExponentialLR(o, 0.7), True),
    ("cosine", "+schedule.end_lr=0.01"): (lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS, 0.01), False),
    ("cosine", "+schedule.end_lr=0.01", "+schedule.warmup=2ep", "+schedule.warmup_from=0.1"): (warm_cosine, False),
    ("linear",): (lambda o: lr_scheduler.LinearLR(o, 1, 0, total_iters=STEPS), False),
    ("one_cycle",): (lambda o: lr_scheduler.OneCycleLR(o, 0.1, STEPS, cycle_momentum=False), False),
}


class TrainingParity(CommandTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(11)
        torch.set_num_threads(1)
        self.take(Mlp(), torch.randn(SAMPLES, 12), "{plugin: mlp, hidden: 32}")

    def take(self, network, inputs, model):
        self.network, self.inputs = network, inputs
        self.targets = (inputs.flatten(1) @ torch.randn(inputs[0].numel(), 5)).argmax(1)
        self.first = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        weights.save(self.folder / "train.safetensors", {"input": self.inputs, "target": self.targets})
        weights.save(self.folder / "first.safetensors", self.first)
        (self.folder / "e.yaml").write_text(
            f"name: parity\nseed: 1\nmodel: {model}\n"
            "dataset: {plugin: tensors, train: train.safetensors}\n"
            "optimizer: {plugin: sgd, lr: 0.1, momentum: 0.9}\n"
            f"trainer: {{max_epochs: 1000, max_steps: {STEPS}, global_batch: {BATCH}, shuffle: false, log_every: 1}}\n"
            "pretrained: {file: first.safetensors}\n"
            "checkpoint: {every: never}\nlaunch: {device: cpu, threads: 1}\n")

    def losses_of_python(self, row=PLAIN, optimizer=None, after=lambda step: None, steps=STEPS):
        """From the first weights."""
        self.network.load_state_dict(self.first)
        parameters = list(self.network.parameters())
        batches = [*zip(self.inputs.split(BATCH), self.targets.split(BATCH))] * steps
        return eager.train(lambda inputs: row.forward(self.network, inputs), batches[:steps], optimizer or row.optimizer(parameters), row.loss,
                           clip=lambda: row.before_update(parameters), after=after)

    def assert_same(self, mine, pythons, tolerance=2e-5):
        self.assertEqual(len(mine), len(pythons))
        for step, (one, other) in enumerate(zip(mine, pythons)):
            self.assertAlmostEqual(one, other, delta=tolerance * max(1, abs(other)), msg=f"step {step + 1}\n{mine}\n{pythons}")

    def check(self, name, row):
        for workers in row.workers:
            run = self.train(f"{name}{workers}", "e.yaml", f"launch.workers={workers}", *row.words)
            self.assert_same(losses_of(run), self.losses_of_python(row), row.tolerance)

    def test_plain_steps_at_any_number_of_workers(self):
        self.check("plain", PLAIN)

    def test_each_feature(self):
        for name, row in FEATURES.items():
            with self.subTest(name):
                self.check(name, row)

    def test_averaged_weights_are_those_of_torchs_averaged_model(self):
        run = self.train("run", "e.yaml", "launch.workers=2", "trainer.ema_decay=0.9")
        average = torch.optim.swa_utils.AveragedModel(
            self.network, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
        self.losses_of_python(after=lambda step: average.update_parameters(self.network))
        mine = weights.load(run / "checkpoints/last/ema.safetensors")
        for name, weight in average.module.state_dict().items():
            torch.testing.assert_close(mine[name], weight, rtol=1e-4, atol=1e-5)

    def test_synchronised_batchnorm_is_batchnorm_of_the_whole_batch(self):
        self.take(ConvNetBn(classes=5, side=8), torch.randn(SAMPLES, 1, 8, 8), "{plugin: convnet_bn}")
        words = ["e.yaml", "optimizer.lr=0.02", "trainer.sync_batchnorm=true", "trainer.max_steps=21"]
        runs = [self.train(f"run{workers}", *words, f"launch.workers={workers}") for workers in (1, 3)]
        pythons = self.losses_of_python(optimizer=sgd(self.network.parameters(), lr=0.02), steps=21)
        for losses in map(losses_of, runs):  # BatchNorm magnifies from step to step what a processor's kernels round otherwise
            self.assert_same(losses[:10], pythons[:10], tolerance=1e-3)
            self.assert_same(losses, pythons, tolerance=1e-2)
        statistics = weights.load(runs[1] / "checkpoints/last/model.safetensors")
        for name in ("layer1.1.running_mean", "layer1.1.running_var", "layer2.1.running_var"):
            torch.testing.assert_close(statistics[name], self.network.state_dict()[name], rtol=1e-2, atol=1e-3)

    def test_a_resumed_run_finds_its_data_from_any_folder_and_needs_its_initial_weights_no_more(self):
        run = self.train("run", "e.yaml", "launch.workers=2", "trainer.max_steps=10")
        (self.folder / "first.safetensors").unlink()
        (self.folder / "elsewhere").mkdir()
        self.ddprun("resume", "../run", "trainer.max_steps=20", folder=self.folder / "elsewhere")
        self.assert_same(losses_of(run), self.losses_of_python(steps=20))

    def test_each_schedule(self):
        for name, *words in SCHEDULES if NIGHTLY else [*SCHEDULES][1::3]:
            with self.subTest(name=name, words=words):
                run = self.train(f"{name}{len(words)}", "e.yaml", "launch.workers=2", f"schedule={name}", *words)
                make, per_epoch = SCHEDULES[(name, *words)]
                optimizer = sgd(self.network.parameters())
                schedule, rates = make(optimizer), []

                def after(step):
                    rates.append(optimizer.param_groups[0]["lr"])
                    if not per_epoch or (step + 1) % EPOCH == 0:
                        schedule.step()

                self.assert_same(losses_of(run), self.losses_of_python(optimizer=optimizer, after=after))
                found = [row["lr"] for row in all_rows(run) if row["split"] == "train"]
                for mine, pythons in zip(found, rates, strict=True):
                    self.assertAlmostEqual(mine, pythons, delta=1e-9)


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 5))

    def forward(self, numbers):
        return self.layers(numbers)


class WithMasters(eager.Training):
    def in_python(self):
        torch.manual_seed(eager.SEED)
        self.module.to(torch.bfloat16)
        self.data = {name: values.bfloat16() for name, values in self.data.items()}
        narrow = list(self.module.parameters())
        masters = [weight.detach().float() for weight in narrow]
        optimizer = torch.optim.SGD(masters, lr=eager.LR, momentum=0.9, fused=True)
        losses = []
        for step in range(self.steps):
            loss = self.loss_of(slice(step * self.batch, (step + 1) * self.batch), autocast=False)
            loss.backward()
            for weight, master in zip(narrow, masters, strict=True):
                master.grad, weight.grad = weight.grad.float(), None
            optimizer.step()
            with torch.no_grad():
                for weight, master in zip(narrow, masters, strict=True):
                    weight.copy_(master)
            losses.append(loss.item())
        self.masters = {name: master for (name, _), master in zip(self.module.named_parameters(), masters, strict=True)}
        return losses


class MasterWeights(CommandTest):
    """trainer.precision=bf16_master: weights of bfloat16, which the optimizer steps by float32 copies, as a loop in Python does."""

    def state(self):
        return weights.load(self.folder / "run/checkpoints/last/optimizer.safetensors")

    def copies(self):
        return {name for name in self.state() if name.endswith("/master_weight")}

    def test_every_bit_is_that_of_a_loop_in_python(self):
        training = WithMasters(Normed(), ["numbers=12"], self.folder, steps=60)
        training.write()
        training.assert_same(self, self.train("run", "net.yaml", "trainer.precision=bf16_master"))
        saved = self.state()
        for name, master in training.masters.items():
            self.assertTrue(torch.equal(saved[f"{name}/master_weight"], master), name)

    def test_a_resumed_run_may_go_over_to_it_and_back(self):
        self.ddprun(*MASTERS, "run.dir=run", "trainer.max_steps=6")
        exact = eager.weights_of(self.folder / "run")
        self.assertEqual(self.copies(), set())
        self.ddprun("resume", "run", "trainer.max_steps=7", "trainer.precision=bf16_master", "optimizer.lr=0")
        self.assertEqual({value.dtype for name, value in eager.weights_of(self.folder / "run").items() if name.endswith("weight")}, {torch.bfloat16})
        saved = self.state()
        for name in self.copies():
            self.assertTrue(torch.equal(saved[name], exact[name.removesuffix("/master_weight")]), name)
        self.ddprun("resume", "run", "trainer.max_steps=8", "trainer.precision=fp32")
        self.assertEqual(self.copies(), set())
        for name, value in eager.weights_of(self.folder / "run").items():
            if name.endswith((".weight", ".bias")):
                self.assertTrue(torch.equal(value, exact[name]), name)

    def test_predictions_and_the_exported_weights_are_those_of_the_run(self):
        self.ddprun(*MASTERS, "run.dir=run", "trainer.max_steps=6", "trainer.precision=bf16_master")
        self.ddprun("predict", "run", "--split", "val", "--out", "p.csv")
        self.ddprun("export", "run", "--out", "w.safetensors")
        self.assertIn(torch.bfloat16, {value.dtype for value in weights.load(self.folder / "w.safetensors").values()})


if __name__ == "__main__":
    unittest.main()

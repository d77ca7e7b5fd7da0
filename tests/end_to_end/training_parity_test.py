# SPDX-License-Identifier: MIT
"""The training of plain PyTorch, step by step: same network, data, order, first weights and settings give the same losses.

One feature at a time, on a network small enough that 50 steps take a moment. PyTorch trains on the whole batch in one process;
ddprun with one, two or three workers.
"""

import contextlib
import unittest

import safetensors.torch
import torch
from torch import nn
from torch.optim import lr_scheduler

from command import NIGHTLY, CommandTest, all_rows

STEPS = 50
SAMPLES, BATCH = 157, 24  # seven batches an epoch, the last one of 13
EPOCH = 7


class Mlp(nn.Module):
    """plugins/models/mlp with one hidden layer."""

    def __init__(self):
        super().__init__()
        self.hidden1 = nn.Linear(12, 32)
        self.output = nn.Linear(32, 5)

    def forward(self, inputs):
        return self.output(torch.relu(self.hidden1(inputs)))


class ConvNetBn(nn.Module):
    """plugins/models/convnet_bn for small images."""

    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(16, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.fc = nn.Linear(32 * 2 * 2, 5)

    def forward(self, images):
        return self.fc(self.layer2(self.layer1(images)).flatten(1))


class TrainingParity(CommandTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(11)
        torch.set_num_threads(1)
        self.network = Mlp()
        self.inputs = torch.randn(SAMPLES, 12)
        self.targets = (self.inputs @ torch.randn(12, 5)).argmax(1)

    def take_images(self):
        self.network = ConvNetBn()
        self.inputs = torch.randn(SAMPLES, 1, 8, 8)
        self.targets = (self.inputs.flatten(1) @ torch.randn(64, 5)).argmax(1)

    # The two sides

    def losses_of_ddprun(self, *words, workers=2, steps=STEPS):
        safetensors.torch.save_file({"input": self.inputs, "target": self.targets}, self.folder / "train.safetensors")
        safetensors.torch.save_file(self.network.state_dict(), self.folder / "first.safetensors")
        model = "mlp, hidden: 32" if isinstance(self.network, Mlp) else "convnet_bn"
        (self.folder / "e.yaml").write_text(
            f"name: parity\nseed: 1\nmodel: {{plugin: {model}}}\n"
            "dataset: {plugin: tensors, train: train.safetensors}\n"
            "optimizer: {plugin: sgd, lr: 0.1, momentum: 0.9}\n"
            f"trainer: {{max_epochs: 1000, max_steps: {steps}, global_batch: {BATCH}, shuffle: false, log_every: 1}}\n"
            "pretrained: {file: first.safetensors}\n"
            "checkpoint: {every: never}\nlaunch: {device: cpu, threads: 1}\n")
        self.ddprun("e.yaml", f"launch.workers={workers}", f"run.dir=run{workers}", *words)
        return [row["loss"] for row in all_rows(self.folder / f"run{workers}") if row["split"] == "train"]

    def batches(self):
        while True:
            yield from zip(self.inputs.split(BATCH), self.targets.split(BATCH))

    def losses_of_python(self, optimizer=None, schedule=None, forward=None, before_update=None, after_update=None,
                         per_epoch=False, steps=STEPS):
        optimizer = optimizer or torch.optim.SGD(self.network.parameters(), lr=0.1, momentum=0.9)
        schedule = schedule and schedule(optimizer)
        losses = []
        for step, (inputs, targets) in zip(range(steps), self.batches()):
            with forward or contextlib.nullcontext():
                outputs = self.network(inputs)
                loss = nn.functional.cross_entropy(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            if before_update:
                before_update()
            optimizer.step()
            if after_update:
                after_update()
            if schedule and (not per_epoch or (step + 1) % EPOCH == 0):
                schedule.step()
            losses.append(loss.item())
        return losses

    def assert_same(self, mine, pythons, tolerance=2e-5):
        self.assertEqual(len(mine), len(pythons))
        for step, (one, other) in enumerate(zip(mine, pythons)):
            self.assertAlmostEqual(one, other, delta=tolerance * max(1, abs(other)), msg=f"step {step + 1}\n{mine}\n{pythons}")

    # Features

    def test_plain_steps_at_any_number_of_workers(self):
        mine = [self.losses_of_ddprun(workers=workers) for workers in (1, 2, 3)]
        pythons = self.losses_of_python()
        for losses in mine:
            self.assert_same(losses, pythons)

    def test_accumulation_is_the_step_of_the_whole_batch(self):
        mine = self.losses_of_ddprun("trainer.micro_batch=3")  # four passes of each worker
        self.assert_same(mine, self.losses_of_python())

    def test_adamw(self):
        mine = self.losses_of_ddprun("optimizer=adamw", "optimizer.lr=0.01", "optimizer.weight_decay=0.1")
        self.assert_same(mine, self.losses_of_python(torch.optim.AdamW(self.network.parameters(), lr=0.01, weight_decay=0.1)))

    def test_clipping_by_norm_and_by_value(self):
        weights = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        by_norm = self.losses_of_ddprun("trainer.clip_norm=0.1", workers=2)
        by_value = self.losses_of_ddprun("trainer.clip_value=0.01", workers=3)
        clip = nn.utils.clip_grad_norm_
        self.assert_same(by_norm, self.losses_of_python(before_update=lambda: clip(self.network.parameters(), 0.1)))
        self.network.load_state_dict(weights)
        clip_value = nn.utils.clip_grad_value_
        self.assert_same(by_value, self.losses_of_python(before_update=lambda: clip_value(self.network.parameters(), 0.01)))

    def test_label_smoothing_and_the_objectives_of_classes(self):
        mine = self.losses_of_ddprun("+objective.label_smoothing=0.1")
        pythons = []
        optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1, momentum=0.9)
        for _, (inputs, targets) in zip(range(STEPS), self.batches()):
            loss = nn.functional.cross_entropy(self.network(inputs), targets, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pythons.append(loss.item())
        self.assert_same(mine, pythons)

    def test_averaged_weights_are_those_of_torchs_averaged_model(self):
        self.losses_of_ddprun("trainer.ema_decay=0.9")
        average = torch.optim.swa_utils.AveragedModel(
            self.network, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
        self.losses_of_python(after_update=lambda: average.update_parameters(self.network))
        mine = safetensors.torch.load_file(self.folder / "run2/checkpoints/last/ema.safetensors")
        for name, weight in average.module.state_dict().items():
            torch.testing.assert_close(mine[name], weight, rtol=1e-4, atol=1e-5)

    def test_synchronised_batchnorm_is_batchnorm_of_the_whole_batch(self):
        self.take_images()
        mine = [self.losses_of_ddprun("optimizer.lr=0.02", "trainer.sync_batchnorm=true", workers=workers, steps=21)
                for workers in (1, 3)]
        pythons = self.losses_of_python(torch.optim.SGD(self.network.parameters(), lr=0.02, momentum=0.9), steps=21)
        for losses in mine:  # BatchNorm magnifies from step to step what a processor's kernels round otherwise
            self.assert_same(losses[:10], pythons[:10], tolerance=1e-3)
            self.assert_same(losses, pythons, tolerance=1e-2)
        statistics = safetensors.torch.load_file(self.folder / "run3/checkpoints/last/model.safetensors")
        for name in ("layer1.1.running_mean", "layer1.1.running_var", "layer2.1.running_var"):
            torch.testing.assert_close(statistics[name], self.network.state_dict()[name], rtol=1e-2, atol=1e-3)

    def test_a_resumed_run_finds_its_data_from_any_folder_and_needs_its_initial_weights_no_more(self):
        self.losses_of_ddprun(steps=10)
        (self.folder / "first.safetensors").unlink()
        (self.folder / "elsewhere").mkdir()
        self.ddprun("resume", "../run2", "trainer.max_steps=20", folder=self.folder / "elsewhere")
        rows = [row for row in all_rows(self.folder / "run2") if row["split"] == "train"]
        self.assert_same([row["loss"] for row in rows], self.losses_of_python(steps=20))

    def test_bf16_autocast_within_its_precision(self):
        mine = self.losses_of_ddprun("trainer.precision=bf16")
        self.assert_same(mine, self.losses_of_python(forward=torch.autocast("cpu", dtype=torch.bfloat16)), tolerance=0.02)

    def test_each_schedule(self):
        def warm_cosine(optimizer):
            rise = lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=2 * EPOCH)
            fall = lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS - 2 * EPOCH, eta_min=0.01)
            return lr_scheduler.SequentialLR(optimizer, [rise, fall], milestones=[2 * EPOCH])

        cases = {
            ("step", "+schedule.every=2ep", "+schedule.gamma=0.5"): (lambda o: lr_scheduler.StepLR(o, 2, 0.5), True),
            ("multistep", "+schedule.milestones=[1ep,20st]"): (lambda o: lr_scheduler.MultiStepLR(o, [7, 20]), False),
            ("exponential", "+schedule.gamma=0.7"): (lambda o: lr_scheduler.ExponentialLR(o, 0.7), True),
            ("cosine", "+schedule.end_lr=0.01"): (lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS, 0.01), False),
            ("cosine", "+schedule.end_lr=0.01", "+schedule.warmup=2ep", "+schedule.warmup_from=0.1"): (warm_cosine, False),
            ("linear",): (lambda o: lr_scheduler.LinearLR(o, 1, 0, total_iters=STEPS), False),
            ("one_cycle",): (lambda o: lr_scheduler.OneCycleLR(o, 0.1, STEPS, cycle_momentum=False), False),
        }
        weights = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        for case in cases if NIGHTLY else [*cases][1::3]:
            schedule, per_epoch = cases[case]
            with self.subTest(case=case):
                name, *words = case
                self.network.load_state_dict(weights)
                self.losses_of_ddprun(f"schedule={name}", *words, f"run.dir={name}{len(words)}")
                rows = [row for row in all_rows(self.folder / f"{name}{len(words)}") if row["split"] == "train"]
                optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1, momentum=0.9)
                expected = []
                pythons = self.losses_of_python(optimizer, schedule, per_epoch=per_epoch,
                                                before_update=lambda: expected.append(optimizer.param_groups[0]["lr"]))
                self.assert_same([row["loss"] for row in rows], pythons)
                for row, rate in zip(rows, expected):
                    self.assertAlmostEqual(row["lr"], rate, delta=1e-9)


if __name__ == "__main__":
    unittest.main()

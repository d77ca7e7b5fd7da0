# SPDX-License-Identifier: MIT
"""The networks for images against Python: from the same weights, on the same samples, the same losses for many steps.

Small differences grow: started from weights that differ by 1e-7, Python comes to differ from itself by up to 2e-3 within these
steps, and by 1 with small batches or large steps. So the first steps must agree to rounding, the others to 1e-2.
"""

import struct
import unittest

import torch
from torch.nn import functional

import weights
from command import CommandTest, nightly, results
from networks import KerasConvNet, ResNet18, WideResNet

SAMPLES = 40  # all of them in each batch
MOMENTUM, DECAY = 0.9, 5e-4


def make_samples():
    """Noise, and in it a stripe that tells the class: pixels as MNIST's files have them, and the classes."""
    draws = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 128, (SAMPLES, 28, 28), generator=draws, dtype=torch.uint8)
    targets = torch.arange(SAMPLES) % 10
    for image, target in zip(pixels, targets.tolist()):
        image[:, 2 * target + 2:2 * target + 6] += 127
    return pixels, targets


def write_mnist(folder, pixels, targets):
    folder.mkdir()
    images = struct.pack(">4I", 0x803, *pixels.shape) + pixels.numpy().tobytes()
    labels = struct.pack(">2I", 0x801, len(targets)) + bytes(targets.tolist())
    for split in ("train", "t10k"):
        (folder / f"{split}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(labels)


def train(network, inputs, targets, lr, steps):
    """The loss of each step."""
    optimizer = torch.optim.SGD(network.parameters(), lr=lr, momentum=MOMENTUM, weight_decay=DECAY)
    losses = []
    for _ in range(steps):
        loss = functional.cross_entropy(network(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class NetworkParity(CommandTest):
    def assert_same_training(self, network, *words, lr, steps):
        pixels, targets = make_samples()
        write_mnist(self.folder / "data", pixels, targets)
        weights.save(self.folder / "start.safetensors", network.state_dict())
        self.ddprun("experiments/mnist.yaml", "dataset.root=data", "dataset.validation=0", "dataset.mean=0.25", "dataset.std=0.5",
                    *words, f"optimizer.lr={lr}", f"optimizer.momentum={MOMENTUM}", f"+optimizer.weight_decay={DECAY}",
                    "trainer.init_weights=start.safetensors", "trainer.shuffle=false", f"trainer.global_batch={SAMPLES}",
                    f"trainer.max_epochs={steps}", "trainer.eval_every=never", "trainer.log_every=1",
                    "~early_stopping", "~checkpoint", "launch.workers=1", "launch.threads=1", "launch.device=cpu",
                    "run.dir=run", seconds=280)
        rows = results(self.folder / "run")
        ours = [rows["train", step + 1]["loss"] for step in range(steps)]
        pythons = train(network, (pixels.unsqueeze(1) / 255 - 0.25) / 0.5, targets, lr, steps)
        errors = [abs(mine - python) for mine, python in zip(ours, pythons)]
        print(f"losses {pythons[0]:.4f} .. {pythons[-1]:.4f}; differences {errors[0]:.0e}, {errors[1]:.0e} .. {max(errors):.0e}")
        self.assertLess(pythons[-1], 0.9 * pythons[0])  # it has learnt, so the comparison means something
        self.assertLess(errors[0], 1e-5)
        self.assertLess(errors[1], 1e-3)
        self.assertLess(max(errors), 1e-2)
        trained = weights.load(self.folder / "run/checkpoints/last/model.safetensors")
        for name, statistic in network.named_buffers():
            self.assertLess(float((trained[name] - statistic).float().norm() / statistic.float().norm()), 0.02, name)
        network.load_state_dict(trained)  # every name, nothing else

    def test_wide_resnet(self):
        torch.manual_seed(1)
        self.assert_same_training(WideResNet(16, 1), "model=wide_resnet", "model.depth=16", "model.widen_factor=1", lr=0.002,
                                  steps=50)

    @nightly  # the first layers apart it is that for large images, and takes as long as all others
    def test_resnet_for_small_images(self):
        torch.manual_seed(2)
        self.assert_same_training(ResNet18(small=True), "model=resnet", lr=0.001, steps=8)

    def test_resnet_for_large_images(self):
        torch.manual_seed(3)
        self.assert_same_training(ResNet18(small=False), "model=resnet", "+model.stem=imagenet", lr=0.001, steps=10)

    def test_keras_convnet(self):
        torch.manual_seed(4)
        self.assert_same_training(KerasConvNet(), "model=keras_convnet", "model.dropout=0", lr=0.02, steps=50)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()

# SPDX-License-Identifier: MIT
"""The networks for images against Python: from the same weights, on the same samples, the same losses for many steps. torchvision's others,
exported, train in every bit as there.

Small differences grow: started from weights that differ by 1e-7, Python comes to differ from itself by up to 2e-3 within these
steps, and by 1 with small batches or large steps. So the first steps must agree to rounding, the others to 1e-2.
"""

import functools
import math
import unittest

import torch

import weights
from command import NIGHTLY, CommandTest, losses_of, nightly, use_peers
from eager import Training, train, weights_of
from networks import KerasConvNet, ResNet18, WideResNet

SAMPLES = 40  # all of them in each batch
MOMENTUM, DECAY = 0.9, 5e-4
EXPORTED = [("mobilenet_v3_small", {}), ("convnext_tiny", {}), ("vit_b_16", {"image_size": 32})]


def make_samples():
    """Noise, and in it a stripe that shows the class: images, and the classes."""
    draws = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 128, (SAMPLES, 28, 28), generator=draws)
    targets = torch.arange(SAMPLES) % 10
    for image, target in zip(pixels, targets.tolist()):
        image[:, 2 * target + 2:2 * target + 6] += 127
    return (pixels.unsqueeze(1) / 255 - 0.25) / 0.5, targets


@functools.cache
def torchvision_models():
    """The module, if it is here or among the peers' packages; else None."""
    use_peers()
    try:
        from torchvision import models
    except (ImportError, RuntimeError):  # the second: made for another torch
        return None
    return models


def draw_weights(network):
    """For every number one that lets activations neither vanish nor grow much."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, value in sorted(network.state_dict().items()):
            if value.dim() > 1:
                value.copy_(torch.randn(value.shape) * math.sqrt(2 * len(value) / value.numel()))
            elif value.is_floating_point():
                value.copy_(torch.rand(value.shape) * 0.2 + 0.9 if name.endswith(("weight", "var")) else torch.randn(value.shape) * 0.1)


class NetworkParity(CommandTest):
    def check(self, seed, make, words, lr, steps):
        torch.manual_seed(seed)
        network = make()
        inputs, targets = make_samples()
        weights.save(self.folder / "train.safetensors", {"input": inputs, "target": targets})
        weights.save(self.folder / "start.safetensors", network.state_dict())
        self.ddprun("experiments/digits.yaml", "dataset={plugin: tensors, train: train.safetensors}", *words,
                    f"optimizer.lr={lr}", f"optimizer.momentum={MOMENTUM}", f"+optimizer.weight_decay={DECAY}", "pretrained.file=start.safetensors", "trainer.shuffle=false", f"trainer.global_batch={SAMPLES}",
                    f"trainer.max_epochs={steps}", "trainer.eval_every=never", "trainer.log_every=1",
                    "~early_stopping", "checkpoint.every=never", "launch.workers=1", "launch.threads=1", "launch.device=cpu",
                    "run.dir=run", seconds=280)
        optimizer = torch.optim.SGD(network.parameters(), lr=lr, momentum=MOMENTUM, weight_decay=DECAY)
        pythons = train(network, [(inputs, targets)] * steps, optimizer)
        errors = [abs(mine - python) for mine, python in zip(losses_of(self.folder / "run"), pythons, strict=True)]
        print(f"losses {pythons[0]:.4f} .. {pythons[-1]:.4f}; differences {errors[0]:.0e}, {errors[1]:.0e} .. {max(errors):.0e}")
        self.assertLess(pythons[-1], 0.9 * pythons[0])  # it has learnt, so the comparison means something
        self.assertLess(errors[0], 1e-5)
        self.assertLess(errors[1], 1e-3)
        self.assertLess(max(errors), 1e-2)
        trained = weights_of(self.folder / "run")
        for name, statistic in network.named_buffers():
            self.assertLess(float((trained[name] - statistic).float().norm() / statistic.float().norm()), 0.02, name)
        network.load_state_dict(trained)  # every name, nothing else


NETWORKS = {  # a seed, how it is made, the words that ask for it, lr and steps
    "wide_resnet": (1, lambda: WideResNet(16, 1), ["model=wide_resnet", "model.depth=16", "model.widen_factor=1"], 0.002, 50),
    "resnet_for_large_images": (3, lambda: ResNet18(small=False), ["model=resnet", "+model.stem=imagenet"], 0.001, 10),
    "keras_convnet": (4, KerasConvNet, ["model=keras_convnet", "model.dropout=0"], 0.02, 50),
}
if NIGHTLY:  # the first layers apart it is that for large images, and takes as long as all others
    NETWORKS["resnet_for_small_images"] = (2, lambda: ResNet18(small=True), ["model=resnet"], 0.001, 8)
for name, row in NETWORKS.items():
    setattr(NetworkParity, f"test_{name}", lambda self, row=row: self.check(*row))


class TorchvisionParity(CommandTest):
    def setUp(self):
        super().setUp()
        self.models = torchvision_models()
        if not self.models:
            self.skipTest("no torchvision: DDPRUN_PEERS=1 tools/test installs it")

    def assert_takes_weights(self, name, *words):
        """Random weights of torchvision's network load by name, into nothing else, and give its logits."""
        network = self.models.get_model(name, weights=None)
        draw_weights(network)
        inputs = torch.randn(4, 3, 64, 64)
        start = {key: value.clone() for key, value in network.state_dict().items()}
        weights.save(self.folder / "start.safetensors", start)
        weights.save(self.folder / "train.safetensors", {"input": inputs, "target": torch.arange(4)})
        self.ddprun("experiments/digits.yaml", "dataset={plugin: tensors, train: train.safetensors, classes: 1000}", *words,
                    "optimizer.lr=0", "pretrained.file=start.safetensors", "trainer.max_steps=1", "trainer.global_batch=4",
                    "trainer.eval_every=never", "~early_stopping", "launch.workers=1", "launch.device=cpu", f"run.dir={name}", seconds=280)
        for file in ("m.safetensors", "m.ts"):
            self.ddprun("export", name, "--out", f"{name}.{file}", seconds=280)
        kept = weights.load(self.folder / f"{name}.m.safetensors")  # but for the running statistics of a step at lr 0
        for key, value in network.named_parameters():
            self.assertTrue(torch.equal(kept[key], value), key)
        network.load_state_dict(kept, strict=True)
        network.eval()
        with torch.no_grad():
            logits, ours = network(inputs), torch.jit.load(self.folder / f"{name}.m.ts")(inputs)
        error = float((ours - logits).abs().max() / logits.abs().max())
        print(f"{name}: {len(kept)} tensors, {sum(map(torch.numel, network.parameters())):,} parameters; logits differ by {error:.0e}")
        self.assertLess(error, 1e-5)

    def test_weights_of_resnet18_fit(self):
        self.assert_takes_weights("resnet18", "model=resnet")

    @nightly
    def test_weights_of_all_residual_networks_fit(self):
        for name, *words in (["resnet34", "depth=34"], ["resnet50", "depth=50"], ["resnet101", "depth=101"], ["resnet152", "depth=152"],
                             ["wide_resnet50_2", "depth=50", "+width=128"], ["wide_resnet101_2", "depth=101", "+width=128"],
                             ["resnext50_32x4d", "depth=50", "+width=4", "+groups=32"]):
            with self.subTest(network=name):
                self.assert_takes_weights(name, "model=resnet", *(word.replace("+", "+model.") if "+" in word else f"model.{word}"
                                                                  for word in words))

    def test_others_are_exported_and_train_in_every_bit(self):
        for name, settings in EXPORTED if NIGHTLY else EXPORTED[:1]:
            with self.subTest(network=name):
                torch.manual_seed(0)
                network = self.models.get_model(name, weights=None, num_classes=10, **settings)
                training = Training(network, ["3x32x32"], self.folder, steps=2).write()
                training.assert_same(self, self.train(name, "net.yaml", seconds=280))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()

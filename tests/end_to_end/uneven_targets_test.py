# SPDX-License-Identifier: MIT
"""Symbols and pixels of which half do not count, very unevenly: the same weights and metrics however the work is cut, and those of
PyTorch with the mean over the whole batch."""

import itertools
import json
import unittest

import torch

import exported_networks
import weights
from command import NIGHTLY, CommandTest, nightly, results
from eager import Training, weights_of
from networks import UNet
from segmentation_test import draw_shapes

BATCH, STEPS, IGNORED = 12, 20, -100
CUTS = list(itertools.product((1, 2, 3, 4), (0, 1, 2, 8))) if NIGHTLY else [(1, 1), (2, 0), (3, 2), (4, 8)]  # workers, micro-batch


def thinned(target):
    """Of every four samples one has no target that counts, one a single one, two have all of them."""
    target = target.clone()
    target[0::4] = IGNORED
    target[1::4].flatten(1)[:, 1:] = IGNORED
    return target


def without_dropout(module):
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
        if isinstance(part, torch.nn.MultiheadAttention):
            part.dropout = 0.0
    return module


class UnevenTargets(CommandTest):
    def difference(self, run, expected):
        """The largest difference of a weight, in parts of the largest weight. BatchNorm's statistics are no weights."""
        found = weights_of(self.folder / run)
        names = [name for name, value in expected.items() if value.is_floating_point() and "running" not in name]
        return max(float((found[name] - expected[name]).abs().max()) for name in names) / max(float(expected[name].abs().max()) for name in names)

    def trained(self, *words, workers=1, micro_batch=0):
        run = f"run{workers}_{micro_batch}"
        self.ddprun(*words, f"launch.workers={workers}", *([f"trainer.micro_batch={micro_batch}"] if micro_batch else []), f"run.dir={run}")
        return run

    def assert_cuts_alike(self, words, expected, cuts):
        for workers, micro_batch in cuts:
            with self.subTest(workers=workers, micro_batch=micro_batch):
                self.assertLess(self.difference(self.trained(*words, workers=workers, micro_batch=micro_batch), expected), 1e-6)

    def assert_evaluates_alike(self, run):
        found = [json.loads(self.ddprun("evaluate", run, "--json", f"trainer.eval_batch={batch}", "launch.workers=2").out())["metrics"]
                 for batch in (1, 7, 64)]
        for other in found[1:]:
            for name, value in found[0].items():
                self.assertEqual(f"{value:.5g}", f"{other[name]:.5g}", name)  # all the digits that are shown

    def test_an_exported_network_trains_as_in_python(self):
        training = Training(without_dropout(exported_networks.Tied()), ["symbols=12:int64:20", "mask=12:bool"], self.folder, batch=BATCH)
        training.target = thinned(training.target)
        training.export(check=False)
        experiment = training.experiment()
        words = [experiment, "trainer.eval_batch=64"]
        whole = self.trained(*words)
        losses = training.in_python()
        self.assertLess(self.difference(whole, training.module.state_dict()), 1e-6)
        ours = [row["loss"] for (split, _), row in results(self.folder / whole).items() if split == "train"]
        for mine, pythons in zip(ours, losses, strict=True):
            self.assertAlmostEqual(mine, pythons, delta=1e-6 * pythons)
        self.assert_cuts_alike(words, training.module.state_dict(), CUTS)

    def test_a_transformer_with_its_own_loss(self):
        generator = torch.Generator().manual_seed(1)
        symbols = torch.randint(0, 11, (BATCH * STEPS, 17), generator=generator)
        for name, part in (("train", slice(0, None)), ("val", slice(0, 71))):
            weights.save(self.folder / f"{name}.safetensors",
                         {"input": symbols[part, :-1].contiguous(), "target": thinned(symbols[part, 1:].contiguous())})
        words = ["experiments/text.yaml", "dataset={plugin: tensors, train: train.safetensors, val: val.safetensors, symbols: true, classes: 11}",
                 "~early_stopping", "optimizer={plugin: sgd, lr: 0.1, momentum: 0.9}", "schedule={name: constant}", "trainer.max_epochs=1",
                 f"trainer.global_batch={BATCH}", "launch.threads=1", "launch.device=cpu", "model={plugin: transformer}"]
        whole = self.trained(*words)
        self.assert_cuts_alike(words, weights_of(self.folder / whole), CUTS)
        self.assert_evaluates_alike(whole)

    # BatchNorm magnifies what sums of another order round otherwise: with a larger lr, differences grow from step to step.
    @nightly
    def test_a_unet_whose_ranks_share_their_statistics(self):
        train, val = draw_shapes(BATCH * STEPS // 2, 1), draw_shapes(33, 2)
        for name, split in (("train", train), ("val", val)):
            weights.save(self.folder / f"{name}.safetensors", split | {"target": thinned(split["target"])})
        torch.manual_seed(3)
        weights.save(self.folder / "start.safetensors", UNet(3, 3, 8, 2).state_dict())
        words = ["experiments/digits.yaml", "dataset={plugin: tensors, train: train.safetensors, val: val.safetensors}",
                 "model={plugin: unet, width: 8, depth: 2}", "pretrained.file=start.safetensors", "optimizer={plugin: sgd, lr: 0.001}", "~early_stopping",
                 "trainer.max_epochs=2", "trainer.sync_batchnorm=true", f"trainer.global_batch={BATCH}", "launch.threads=1", "launch.device=cpu"]
        whole = self.trained(*words)
        self.assert_cuts_alike(words, weights_of(self.folder / whole), [(workers, 0) for workers in (2, 3, 4)])
        self.assert_evaluates_alike(whole)


if __name__ == "__main__":
    unittest.main()

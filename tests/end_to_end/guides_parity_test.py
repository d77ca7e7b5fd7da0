# SPDX-License-Identifier: MIT
"""The trainings of the Python guides for MNIST, as plain PyTorch does them: two processes with DistributedDataParallel over Gloo, a
DistributedSampler's share of real images for each, against the shipped experiments with two workers. The same first weights and the same
samples give the same losses; the network of a checkpoint gives the same predictions of all test images.

Where the two differ on purpose the experiment is asked to follow: no dropout, whose random numbers are others'; samples in the file's order;
memory format channels_first, as the scripts have it: channels_last rounds differently.
"""

import gzip
import json
import os
import pathlib
import unittest

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.nn import functional

import weights
from command import NIGHTLY, CommandTest, losses_of
from eager import weights_of
from networks import ConvNetBn, KerasConvNet

MNIST = pathlib.Path(os.environ.get("DDPRUN_DATA", "")) / "mnist"
STEPS = 200 if NIGHTLY else 15
WORKERS = 2
torch.set_num_threads(1)  # so that nothing but this thread exists when the processes are forked


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(4 * 4 * 50, 500), nn.Linear(500, 10)

    def forward(self, images):
        features = functional.max_pool2d(functional.relu(self.conv1(images)), 2)
        features = functional.max_pool2d(functional.relu(self.conv2(features)), 2)
        return functional.log_softmax(self.fc2(functional.relu(self.fc1(features.flatten(1)))), dim=1)


def read_mnist(split, count, mean, std):
    def numbers(name, offset):
        return torch.frombuffer(bytearray(gzip.decompress((MNIST / name).read_bytes())), dtype=torch.uint8, offset=offset)

    pixels, labels = numbers(f"{split}-images-idx3-ubyte.gz", 16), numbers(f"{split}-labels-idx1-ubyte.gz", 8)
    return (pixels.view(-1, 1, 28, 28)[:count] / 255 - mean) / std, labels[:count].long()


def train(rank, folder, network, samples, batch, loss_of, optimizer_of):
    """One process of the guides' scripts; rank 0 leaves each step's loss, the mean over both."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORKERS)
    replica = nn.parallel.DistributedDataParallel(network)
    optimizer = optimizer_of(replica.parameters())
    inputs, targets = samples
    losses = []
    for step in range(STEPS):
        begin = (step * WORKERS + rank) * batch
        loss = loss_of(replica(inputs[begin:begin + batch]), targets[begin:begin + batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        losses.append(mean.item() / WORKERS)
    if rank == 0:
        torch.save(losses, f"{folder}/losses.pt")
    torch.distributed.barrier()
    os._exit(0)  # Gloo's threads may abort while the interpreter ends


def sgd(parameters, lr, momentum):
    return torch.optim.SGD(parameters, lr=lr, momentum=momentum)


def flyte_optimizer(parameters):
    return sgd(parameters, 0.01, 0.5)


def medium_optimizer(parameters):
    return sgd(parameters, 1e-4, 0)


def keras_optimizer(parameters):
    return torch.optim.Adam(parameters, lr=1e-3)


@unittest.skipUnless((MNIST / "train-images-idx3-ubyte.gz").is_file(), "DDPRUN_DATA names no folder with mnist/")
class GuidesParity(CommandTest):
    def assert_same_losses(self, experiment, network, batch, normalization, loss_of, optimizer_of, *words):
        weights.save(self.folder / "first.safetensors", {name: value for name, value in network.state_dict().items()})
        samples = read_mnist("train", STEPS * WORKERS * batch, *normalization)
        parts = (str(self.folder), network, samples, batch, loss_of, optimizer_of)
        torch.multiprocessing.start_processes(train, parts, nprocs=WORKERS, start_method="fork")
        pythons = torch.load(self.folder / "losses.pt")
        self.ddprun(f"experiments/{experiment}", f"dataset.root={MNIST}", "pretrained.file=first.safetensors", "trainer.shuffle=false",
                    f"trainer.max_steps={STEPS}", "trainer.log_every=1", "trainer.limit_val_batches=1", "trainer.limit_test_batches=1", "trainer.sanity_batches=0",
                    "trainer.eval_every=never", f"launch.workers={WORKERS}", "launch.threads=1",
                    "launch.device=cpu", "trainer.memory_format=channels_first", "run.dir=run", *words, seconds=280)
        errors = [abs(one - other) / max(1, abs(other)) for one, other in zip(losses_of(self.folder / "run"), pythons, strict=True)]
        print(f"{experiment}: losses {pythons[0]:.4f} .. {pythons[-1]:.4f}; differences {errors[0]:.0e} .. {max(errors):.0e}")
        self.assertLess(pythons[-1], pythons[0])
        self.assertLess(max(errors[:8]), 1e-6)  # Adam magnifies what a processor's kernels round otherwise
        self.assertLess(max(errors[:15]), 1e-5)
        self.assertLess(max(errors), 1e-2)  # small differences grow

    def assert_same_predictions(self, network, mean, std):
        images, labels = read_mnist("t10k", 10_000, mean, std)
        network.load_state_dict(weights_of(self.folder / "run"))  # every name, nothing else
        with torch.no_grad():
            logits = torch.cat([network.eval()(batch) for batch in images.split(500)])
        correct = int((logits.argmax(1) == labels).sum())
        best, second = logits.topk(2).values.unbind(1)
        found = json.loads(self.ddprun("evaluate", "run", "--json", "~trainer.limit_test_batches").out())
        print(f"correct in Python {correct}, by ddprun {found['test_correct']}; nearest tie {float((best - second).min()):.2e}")
        self.assertEqual((found["test_correct"], found["test_total"]), (correct, 10_000))
        self.assertGreater(correct, 1500, "no good measure of sameness")
        self.assertAlmostEqual(found["metrics"]["test/loss"], float(functional.cross_entropy(logits.double(), labels)), delta=1e-5)

    def test_flyte(self):
        torch.manual_seed(1)
        self.assert_same_losses("mnist_flyte", LeNet(), 128, (0.1307, 0.3081), functional.nll_loss, flyte_optimizer)

    def test_medium(self):
        torch.manual_seed(0)
        self.assert_same_losses("mnist_medium", ConvNetBn(), 100, (0, 1), functional.cross_entropy, medium_optimizer)

    def test_keras(self):
        torch.manual_seed(42)
        network = KerasConvNet()
        self.assert_same_losses("mnist_keras", network, 64, (0, 1), functional.cross_entropy, keras_optimizer, "model.dropout=0")
        self.assert_same_predictions(network, 0, 1)


if __name__ == "__main__":
    unittest.main()

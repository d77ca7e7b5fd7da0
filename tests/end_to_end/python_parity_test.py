# SPDX-License-Identifier: MIT
"""A checkpoint of real MNIST in plain PyTorch: the same network, the same predictions on all 10,000 test images."""

import gzip
import json
import os
import pathlib

import numpy
import torch
from torch import nn

import weights
from command import CommandTest, main, summary
from networks import ConvNetBn

DATA = pathlib.Path(os.environ.get("DDPRUN_DATA", ""))
STEPS = 100


def read_idx(name, header):
    return numpy.frombuffer(gzip.decompress((DATA / "mnist" / name).read_bytes())[header:], dtype=numpy.uint8)


class PythonParity(CommandTest):
    def setUp(self):
        super().setUp()
        self.ddprun("experiments/mnist.yaml", "model=convnet_bn", "optimizer.lr=0.01", "trainer.global_batch=96",
                    f"trainer.max_steps={STEPS}", "dataset.limit_train=9000", "dataset.validation=100", "launch.workers=2",
                    "launch.threads=1", "run.dir=run", env={"DDPRUN_DATA": str(DATA)}, seconds=240)
        self.checkpoint = self.folder / "run/checkpoints/last"

    def test_the_checkpoint_opens_in_python(self):
        self.assertEqual(json.loads((self.checkpoint / "state.json").read_text())["step"], STEPS)
        momenta = [tensor for tensor in weights.load(self.checkpoint / "optimizer.safetensors").values() if tensor.dim() == 4]
        self.assertEqual(sorted(tuple(tensor.shape) for tensor in momenta), [(16, 1, 5, 5), (32, 16, 5, 5)])

    def test_the_same_network_in_python_gives_the_same_predictions(self):
        images = torch.from_numpy(read_idx("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).copy()).float()
        labels = torch.from_numpy(read_idx("t10k-labels-idx1-ubyte.gz", 8).copy()).long()
        images = (images / 255 - 0.1307) / 0.3081
        network = ConvNetBn()
        network.load_state_dict(weights.load(self.checkpoint / "model.safetensors"))  # every name, nothing else
        network.eval()
        with torch.no_grad():
            logits = torch.cat([network(batch) for batch in images.split(500)])
        correct = int((logits.argmax(1) == labels).sum())
        best, second = logits.topk(2).values.unbind(1)
        found = summary(self.folder / "run")
        print(f"correct in Python {correct}, by ddprun {found['test_correct']}; nearest tie {float((best - second).min()):.2e}")
        self.assertEqual(found["test_total"], 10000)
        self.assertGreater(found["test_correct"], 9000)
        self.assertEqual(found["test_correct"], correct)
        loss = float(nn.functional.cross_entropy(logits.double(), labels))
        self.assertAlmostEqual(found["metrics"]["test/loss"], loss, delta=1e-5)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(None if (DATA / "mnist/t10k-images-idx3-ubyte.gz").is_file() else "no real MNIST: DDPRUN_DATA is not set to the folder that holds mnist/")

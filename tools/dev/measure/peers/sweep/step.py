"""What a trial trains, in plain PyTorch: one step of a perceptron on a folder's arrays. Prints its validation loss."""

import argparse
import pathlib

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 64


def arrays(folder, split):
    files = [folder / f"{split}_{name}.npy" for name in ("input", "target")]
    return TensorDataset(*(torch.from_numpy(numpy.load(file)) for file in files))


def train(folder, lr, momentum):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    folder = pathlib.Path(folder)
    model = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    loss_of = nn.CrossEntropyLoss()
    images, targets = next(iter(DataLoader(arrays(folder, "train"), batch_size=BATCH, shuffle=True)))
    optimizer.zero_grad()
    loss_of(model(images), targets).backward()
    optimizer.step()
    with torch.no_grad():
        parts = [(loss_of(model(images), targets).item(), len(images))
                 for images, targets in DataLoader(arrays(folder, "val"), batch_size=BATCH)]  # fmt: skip
    return sum(loss * count for loss, count in parts) / sum(count for _, count in parts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--momentum", type=float, required=True)
    options = parser.parse_args()
    print(train(options.data, options.lr, options.momentum))


if __name__ == "__main__":
    main()

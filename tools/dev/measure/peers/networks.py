"""The networks of ddprun's plugins in Python, and the files of the images that they learn."""

import pathlib

import torch
from torch import nn
from torch.nn import functional

MNIST_MEAN, MNIST_STD = 0.1307, 0.3081  # of the pixels, 0 .. 1
CIFAR_MEAN, CIFAR_STD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)  # of CIFAR-100's
SIDE, PADDING = 32, 4  # of CIFAR's images, and of what is added before they are cropped again


def read_mnist(root):
    """[N, 28, 28] and [N], bytes."""
    folder = pathlib.Path(root) / "MNIST/raw"
    return mapped(folder / "train-images-idx3-ubyte")[16:].view(-1, 28, 28), mapped(folder / "train-labels-idx1-ubyte")[8:]


def read_cifar100(root):
    """[N, 3, 32, 32] and [N], bytes: records of a coarse label, a fine one, and planes of red, green and blue."""
    records = mapped(pathlib.Path(root) / "cifar-100-binary/train.bin").view(-1, 2 + 3 * SIDE * SIDE)
    return records[:, 2:].view(-1, 3, SIDE, SIDE), records[:, 1]


def mapped(path):
    return torch.from_file(str(path), size=path.stat().st_size, dtype=torch.uint8)


class ConvNetBn(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 16, kernel_size=5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(16, 32, kernel_size=5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.fc = nn.Linear(7 * 7 * 32, 10)

    def forward(self, x):
        return self.fc(self.layer2(self.layer1(x)).flatten(1))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(64 * 12 * 12, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = functional.relu(self.conv1(x))
        x = functional.relu(self.conv2(x))
        x = self.dropout1(functional.max_pool2d(x, 2))
        x = functional.relu(self.fc1(x.flatten(1)))
        return self.fc2(self.dropout2(x))


def convolution(inputs, outputs, kernel, stride=1):
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


class Block(nn.Module):
    """Normalises and activates before it convolves; the shortcut convolves, too, where the number of channels changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = convolution(inputs, outputs, 3, stride)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.conv2 = convolution(outputs, outputs, 3)
        self.shortcut = convolution(inputs, outputs, 1, stride) if inputs != outputs else None

    def forward(self, x):
        active = functional.relu(self.norm1(x))
        out = self.conv2(functional.relu(self.norm2(self.conv1(active))))
        return out + (x if self.shortcut is None else self.shortcut(active))


class WideResNet(nn.Module):
    def __init__(self, depth=16, widen_factor=4, classes=100):
        super().__init__()
        blocks, channels = [], 16
        for width, first_stride in ((16, 1), (32, 2), (64, 2)):
            for number in range((depth - 4) // 6):
                outputs = width * widen_factor
                blocks.append(Block(channels, outputs, first_stride if number == 0 else 1))
                channels = outputs
        self.conv = convolution(3, 16, 3)
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(channels)
        self.head = nn.Linear(channels, classes)
        nn.init.zeros_(self.head.bias)

    def forward(self, x):
        x = functional.relu(self.norm(self.blocks(self.conv(x))))
        return self.head(x.mean(dim=(2, 3)))


NETWORKS = {"convnet_bn": ConvNetBn, "convnet": ConvNet, "wide_resnet": WideResNet}


def make(args):
    return WideResNet(args.depth, args.widen_factor) if args.model == "wide_resnet" else NETWORKS[args.model]()

"""What the scripts for CIFAR-100 share: their words on the command line, its binary files, and the wide residual
network of ddprun's plugin of that name. ../peer_worker.py has the rest."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))  # for peer_worker

import peer_worker  # noqa: E402
import torch  # noqa: E402
from peer_worker import Networks, Record, add_compile, channels_last, compiles, main  # noqa: E402, F401
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

MEAN, STD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)  # of CIFAR-100's pixels, 0 .. 1
SIDE, PADDING = 32, 4


def make_parser(text):
    parser = peer_worker.make_parser(text)
    parser.set_defaults(lr=0.04, momentum=0.9, global_batch=1024)
    add = parser.add_argument
    add("--data", required=True, help="folder that holds cifar-100-binary")
    add("--weight-decay", type=float, default=5e-4)
    add("--depth", type=int, default=16)
    add("--widen-factor", type=int, default=4)
    return parser


def read_training_images(root):
    """[N, 3, 32, 32] and [N], bytes: records of a coarse label, a fine one, and planes of red, green and blue."""
    path = pathlib.Path(root) / "cifar-100-binary/train.bin"
    records = torch.from_file(str(path), size=path.stat().st_size, dtype=torch.uint8).view(-1, 2 + 3 * SIDE * SIDE)
    return records[:, 2:].view(-1, 3, SIDE, SIDE), records[:, 1]


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

"""The wide residual network of ddprun's plugin of that name, for images of 32 x 32."""

from torch import nn
from torch.nn import functional


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

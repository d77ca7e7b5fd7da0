# SPDX-License-Identifier: MIT
"""The networks of plugins/models in Python, written down again from their descriptions, for grey images in ten classes;
and the U-Net, which has a class for each pixel."""

import math

import torch
from torch import nn
from torch.nn import functional


class ConvNetBn(nn.Module):
    """plugins/models/convnet_bn, for square images of one channel."""

    def __init__(self, classes=10, side=28):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(16, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.fc = nn.Linear(32 * (side // 4) ** 2, classes)

    def forward(self, images):
        return self.fc(self.layer2(self.layer1(images)).flatten(1))


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)


class Layers(nn.Module):
    """Only gives its layers the name that the widely used version has."""

    def __init__(self, *layers):
        super().__init__()
        self.layer = nn.Sequential(*layers)

    def forward(self, images):
        return self.layer(images)


class WideBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), convolution(inputs, outputs, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outputs), convolution(outputs, outputs, 3)
        if inputs != outputs:
            self.convShortcut = convolution(inputs, outputs, 1, stride)

    def forward(self, images):
        active = functional.relu(self.bn1(images))
        residual = self.conv2(functional.relu(self.bn2(self.conv1(active))))
        return residual + (self.convShortcut(active) if hasattr(self, "convShortcut") else images)


class WideResNet(nn.Module):
    """plugins/models/wide_resnet without dropout."""

    def __init__(self, depth, widen_factor):
        super().__init__()
        widths = [16, 16 * widen_factor, 32 * widen_factor, 64 * widen_factor]
        groups = [Layers(WideBlock(inputs, outputs, stride),
                         *(WideBlock(outputs, outputs, 1) for _ in range((depth - 4) // 6 - 1)))
                  for inputs, outputs, stride in zip(widths, widths[1:], (1, 2, 2))]
        self.conv1 = convolution(1, 16, 3)
        self.block1, self.block2, self.block3 = groups
        self.bn1, self.fc = nn.BatchNorm2d(widths[3]), nn.Linear(widths[3], 10)

    def forward(self, images):
        features = functional.relu(self.bn1(self.block3(self.block2(self.block1(self.conv1(images))))))
        return self.fc(functional.adaptive_avg_pool2d(features, 1).flatten(1))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = convolution(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, images):
        residual = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(images)))))
        return functional.relu(residual + (self.downsample(images) if self.downsample else images))


class ResNet18(nn.Module):
    """plugins/models/resnet of depth 18, for small images or for ImageNet's."""

    def __init__(self, small):
        super().__init__()
        self.conv1 = convolution(1, 64, 3) if small else convolution(1, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.pool = nn.Identity() if small else nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1, self.layer2, self.layer3, self.layer4 = (
            nn.Sequential(BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1))
            for inputs, outputs, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)))
        self.fc = nn.Linear(512, 10)

    def forward(self, images):
        features = self.pool(functional.relu(self.bn1(self.conv1(images))))
        features = self.layer4(self.layer3(self.layer2(self.layer1(features))))
        return self.fc(functional.adaptive_avg_pool2d(features, 1).flatten(1))


class Pair(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.bn1 = convolution(inputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = convolution(outputs, outputs, 3), nn.BatchNorm2d(outputs)

    def forward(self, images):
        return functional.relu(self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(images))))))


class Up(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.up, self.pair = nn.ConvTranspose2d(2 * outputs, outputs, 2, stride=2), Pair(2 * outputs, outputs)

    def forward(self, images, skipped):
        images = self.up(images)
        rows, columns = (skipped.size(axis) - images.size(axis) for axis in (2, 3))
        return self.pair(torch.cat([skipped, functional.pad(images, (0, columns, 0, rows))], 1))


class UNet(nn.Module):
    """plugins/models/unet."""

    def __init__(self, channels, classes, width, depth):
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(Pair(*sizes) for sizes in zip([channels, *widths], widths))
        self.up = nn.ModuleList(map(Up, reversed(widths[:-1])))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, images):
        levels = [self.down[0](images)]
        for pair in self.down[1:]:
            levels.append(pair(functional.max_pool2d(levels[-1], 2)))
        images = levels.pop()
        for up in self.up:
            images = up(images, levels.pop())
        return self.head(images)


class UnscaledNorm(nn.BatchNorm2d):
    """Keras' BatchNormalization(scale=False) with its other defaults."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.01)
        self.weight = None


class KerasConvNet(nn.Module):
    """plugins/models/keras_convnet without dropout."""

    def __init__(self):
        super().__init__()
        self.conv2d = nn.Conv2d(1, 12, 3, padding=1, bias=False)
        self.batch_normalization = UnscaledNorm(12)
        self.conv2d_1 = nn.Conv2d(12, 24, 6, stride=2, bias=False)
        self.batch_normalization_1 = UnscaledNorm(24)
        self.large_k = nn.Conv2d(24, 32, 6, stride=2)
        self.batch_normalization_2 = UnscaledNorm(32)
        self.dense = nn.Linear(32, 256)
        self.dense_1 = nn.Linear(256, 10)

    @staticmethod
    def same(images):
        """Padding "same" for a kernel of 6 at stride 2; the larger half comes last."""
        zeros = [max((math.ceil(size / 2) - 1) * 2 + 6 - size, 0) for size in images.shape[2:]]
        (top, bottom), (left, right) = ((count // 2, count - count // 2) for count in zeros)
        return functional.pad(images, (left, right, top, bottom))

    def forward(self, images):
        features = functional.relu(self.batch_normalization(self.conv2d(images)))
        features = functional.relu(self.batch_normalization_1(self.conv2d_1(features)))
        features = functional.relu(self.batch_normalization_2(self.large_k(self.same(features))))
        return self.dense_1(functional.relu(self.dense(features.mean((2, 3)))))

# SPDX-License-Identifier: MIT
"""Small networks with all that is hard to export: state, randomness, ties, blocks, symbolic sizes, several inputs."""

import torch
from torch import nn
from torch.nn import functional


class Images(nn.Module):
    """Convolutions, BatchNorm, pooling, dropout and stochastic depth."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, 10)

    def forward(self, images):
        hidden = self.body(images)
        branch = self.block(hidden)
        if self.training:
            keep = torch.empty(hidden.shape[0], 1, 1, 1, dtype=hidden.dtype, device=hidden.device).bernoulli_(0.7)
            branch = branch * keep.div_(0.7)
        return self.head(self.drop((hidden + branch).mean((2, 3))))


class Recurrent(nn.Module):
    """An LSTM with dropout over an embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 12)
        self.lstm = nn.LSTM(12, 16, num_layers=2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(16, 20)

    def forward(self, symbols):
        return self.head(self.lstm(self.embedding(symbols))[0])


class Tied(nn.Module):
    """Attention with a mask as its second input; the head's weights are the embedding's."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.attention = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("positions", torch.linspace(-1, 1, 16 * 12).view(12, 16), persistent=False)

    def forward(self, symbols, mask):
        hidden = self.embedding(symbols) + self.positions[: symbols.shape[1]]
        hidden = self.attention(hidden, src_key_padding_mask=~mask)
        return self.head(hidden.masked_fill(~mask.unsqueeze(-1), 0))


class Odd(nn.Module):
    """Buffers that are assigned anew, a frozen weight, no_grad and autocast blocks, torch.cond, arithmetic on the batch's size."""

    def __init__(self):
        super().__init__()
        self.first = nn.utils.parametrizations.spectral_norm(nn.Linear(12, 16))
        self.second = nn.Linear(16, 16)
        self.norm = nn.BatchNorm1d(16, affine=False)
        self.frozen = nn.Parameter(torch.linspace(0.5, 1.5, 16), requires_grad=False)
        self.head = nn.Linear(16, 5)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, values):
        if self.training:
            self.steps = self.steps + 1
        hidden = torch.tanh(self.first(values)) * self.frozen
        with torch.no_grad():
            scale = hidden.abs().mean() + 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = hidden + self.second(hidden).float() / scale
        hidden = torch.cond(hidden.sum() > 0, lambda x: x * 2, lambda x: x - 1, (hidden,))
        noise = torch.randn_like(hidden) * (0.1 if self.training else 0.0)
        both = torch.cat([hidden, hidden + noise], 0).view(2 * values.shape[0] // 2 * 2, -1)
        return self.head(self.norm(functional.elu(both[: values.shape[0]]))) * (1 + values.shape[0] / 1000)


class Segments(nn.Module):
    """Logits of each pixel, upsampled, of which the gradients come in the order of the channels."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout2d(0.2))
        self.head = nn.Conv2d(8, 5, 1)

    def forward(self, pictures):
        return functional.interpolate(self.head(self.down(pictures)), size=pictures.shape[-2:], mode="bilinear", align_corners=False)


class Volumes(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv3d(4, 3, 1))

    def forward(self, volumes):
        return self.body(volumes)


class Translates(nn.Module):
    """Ten symbols of sixteen."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.queries = nn.Parameter(torch.linspace(-1, 1, 160).view(10, 16))
        self.attention = nn.MultiheadAttention(16, 2, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 20)

    def forward(self, symbols):
        source = self.embedding(symbols)
        return self.head(self.attention(self.queries.expand(symbols.shape[0], -1, -1), source, source, need_weights=False)[0])


NETWORKS = {
    "images": (Images, ["1x8x8"]),
    "recurrent": (Recurrent, ["12:int64:20"]),
    "tied": (Tied, ["12:int64:20", "mask=12:bool"]),
    "odd": (Odd, ["12"]),
    "segments": (Segments, ["3x12x12"]),
    "volumes": (Volumes, ["1x4x4x4"]),
    "translates": (Translates, ["16:int64:20"]),
}

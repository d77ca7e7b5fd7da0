"""CIFAR-100 with a wide residual network on one GPU, by somebody who knows what makes it fast.

    RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=0 \\
    python3 tools/dev/measure/peers/cifar/expert.py --data FOLDER_WITH_cifar-100-binary

Against the plain script: all images as bytes on the GPU, where whole batches are cropped, mirrored and normalised, channels_last, bf16
without a scaler, a fused optimizer, torch.compile for augmentation and network, no DDP for one worker.
"""

import functools

import job
import torch
from torch.nn import functional


def make_parser():
    parser = job.make_parser(__doc__)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    job.add_compile(parser)
    return parser


@functools.cache
def load(root, device):
    """[N, 3, 40, 40] bytes with their black frames, and [N] int64."""
    images, labels = job.read_training_images(root)
    return functional.pad(images.to(device), (job.PADDING,) * 4), labels.to(device).long()


def augment(padded, indices, corners, mirrored, mean, scale):
    """A batch in one gather: [B, 3, 32, 32] float32 in channels_last."""
    places = torch.arange(job.SIDE, device=padded.device)
    columns = torch.where(mirrored[:, None], job.SIDE - 1 - places, places) + corners[:, 1:]
    rows = places + corners[:, :1]
    pixels = padded[indices[:, None, None], :, rows[:, :, None], columns[:, None, :]]  # [B, 32, 32, 3]
    return ((pixels.to(torch.float32) - mean) * scale).permute(0, 3, 1, 2)


class Batches:
    """Whole ones alone: a ragged one would be compiled for itself."""

    def __init__(self, args, device, make):
        self._padded, self._labels = load(args.data, device)
        self._batch = args.global_batch
        self._make = make
        self._mean = 255 * torch.tensor(job.MEAN, device=device)
        self._scale = 1 / (255 * torch.tensor(job.STD, device=device))

    def epoch(self):
        count, device = len(self._labels), self._labels.device
        order = torch.randperm(count, device=device)
        corners = torch.randint(2 * job.PADDING + 1, (count, 2), device=device)
        mirrored = torch.rand(count, device=device) < 0.5
        for begin in range(0, count - self._batch + 1, self._batch):
            part = slice(begin, begin + self._batch)
            images = self._make(self._padded, order[part], corners[part], mirrored[part], self._mean, self._scale)
            yield images, self._labels[order[part]]


def train(model, batches, args, device, record):
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum,
                                weight_decay=args.weight_decay, fused=True)  # fmt: skip
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=args.precision == "bf16")
    model.train()
    for epoch in range(args.epochs):
        for images, labels in batches.epoch():
            torch.compiler.cudagraph_mark_step_begin()
            optimizer.zero_grad(set_to_none=True)
            with autocast:
                loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            if record.ended(epoch, loss):
                return


def forms(network, args, device):
    """What trains, and the function that makes batches for it."""
    if not job.compiles(args):
        return network, augment
    return torch.compile(network, mode="reduce-overhead" if device.type == "cuda" else None), torch.compile(augment)


def run(networks, args, device):
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    kind = (args.depth, args.widen_factor, args.precision, args.compile, args.global_batch)
    _, (model, make) = networks.get(kind, lambda: job.channels_last(job.WideResNet(args.depth, args.widen_factor).to(device)),
                                    lambda network: forms(network, args, device))  # fmt: skip
    record = job.Record(args)
    train(model, Batches(args, device, make), args, device, record)
    record.write()


if __name__ == "__main__":
    job.main(make_parser(), functools.partial(run, job.Networks()))

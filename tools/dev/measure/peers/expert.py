"""MNIST or CIFAR-100 with PyTorch DDP, by somebody who knows what makes it fast.

    torchrun --nproc-per-node 2 tools/dev/measure/peers/expert.py --max-steps 300 --data FOLDER_WITH_MNIST/raw

Against the plain script: all images on the device instead of a DataLoader, CIFAR's cropped and mirrored there by whole batches;
channels_last, a fused optimizer, gradients that live in DDP's buckets, a static graph, bf16 without a scaler, torch.compile on GPUs. A
worker that is alone leaves DDP out; on a GPU its network runs as CUDA graphs.
"""

import itertools

import networks
import torch
import torch.distributed as dist
import worker
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


def make_parser():
    parser = worker.make_parser(__doc__)
    parser.add_argument("--eager", action="store_true", help="without torch.compile on a GPU, too")
    return parser


def compiles(args):
    return args.device == "cuda" and not args.eager


def mnist(args, device):
    """The labels, and what makes a batch of indices: of images that are normalised once."""
    images, labels = (numbers.to(device) for numbers in networks.read_mnist(args.data))
    images = images.unsqueeze(-1).to(torch.float32).div_(255).sub_(networks.MNIST_MEAN).div_(networks.MNIST_STD)
    images = images.permute(0, 3, 1, 2)  # channels_last
    return labels.long(), lambda indices: images[indices]


def cifar100(args, device):
    """The same, of bytes with black frames."""
    images, labels = networks.read_cifar100(args.data)
    padded = functional.pad(images.to(device), (networks.PADDING,) * 4)
    mean = 255 * torch.tensor(networks.CIFAR_MEAN, device=device)
    scale = 1 / (255 * torch.tensor(networks.CIFAR_STD, device=device))
    make = torch.compile(augment) if compiles(args) else augment
    return labels.to(device).long(), lambda indices: make(padded, indices, mean, scale)


def augment(padded, indices, mean, scale):
    """A batch in one gather: [B, 3, 32, 32] float32 in channels_last."""
    count, device = len(indices), padded.device
    corners = torch.randint(2 * networks.PADDING + 1, (count, 2), device=device)
    mirrored = torch.rand(count, device=device) < 0.5
    places = torch.arange(networks.SIDE, device=device)
    columns = torch.where(mirrored[:, None], networks.SIDE - 1 - places, places) + corners[:, 1:]
    rows = places + corners[:, :1]
    pixels = padded[indices[:, None, None], :, rows[:, :, None], columns[:, None, :]]  # [B, 32, 32, 3]
    return ((pixels.to(torch.float32) - mean) * scale).permute(0, 3, 1, 2)


def channels_last(network):
    """Filters of one channel, too, for which .to(memory_format=...) does nothing: both orders look the same to it."""
    for parameter in network.parameters():
        if parameter.dim() == 4:
            parameter.data = torch.empty_like(parameter, memory_format=torch.channels_last).copy_(parameter)
    return network


def distributed(network, args, device):
    on_gpu = device.type == "cuda"
    if dist.get_world_size() == 1:
        return torch.compile(network, mode="reduce-overhead") if compiles(args) else network
    model = DistributedDataParallel(
        network,
        device_ids=[device.index] if on_gpu else None,
        gradient_as_bucket_view=True,
        static_graph=not compiles(args),  # the compiler cuts the graph at DDP's buckets, and cannot with it
    )
    return torch.compile(model) if compiles(args) else model


def train(model, labels, make, args, record):
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=worker.MOMENTUM, weight_decay=args.weight_decay, fused=True)
    device, batch = labels.device, args.global_batch // dist.get_world_size()
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=args.precision == "bf16")
    whole = len(labels) // args.global_batch * args.global_batch  # a ragged last batch is left out: it would be compiled for itself
    model.train()
    for epoch in itertools.count():
        generator = torch.Generator(device).manual_seed(epoch)  # the same order everywhere
        order = torch.randperm(len(labels), generator=generator, device=device)
        for indices in order[dist.get_rank() : whole : dist.get_world_size()].split(batch):
            images = make(indices)
            torch.compiler.cudagraph_mark_step_begin()
            optimizer.zero_grad(set_to_none=True)
            with autocast:
                loss = functional.cross_entropy(model(images), labels[indices])
            loss.backward()
            optimizer.step()
            if record.ended(loss):
                return


def run(args, device):
    torch.set_float32_matmul_precision("high" if args.model == "wide_resnet" else "highest")
    labels, make = (cifar100 if args.model == "wide_resnet" else mnist)(args, device)
    model = distributed(channels_last(networks.make(args).to(device)), args, device)
    record = worker.Record(args)
    train(model, labels, make, args, record)
    record.write()


if __name__ == "__main__":
    worker.main(make_parser(), run)

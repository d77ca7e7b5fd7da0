"""MNIST with PyTorch DDP, by somebody who knows what makes it fast.

    torchrun --nproc-per-node 2 tools/dev/measure/peers/mnist/expert.py --data FOLDER_WITH_MNIST/raw

Against the plain script: images normalised once and kept as tensors on the device instead of a DataLoader, channels_last,
a fused optimizer, gradients that live in DDP's buckets, a static graph, bf16 where asked, torch.compile on GPUs. A worker that is
alone leaves DDP out; on a GPU its network runs as CUDA graphs.
"""

import functools

import job
import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


def make_parser():
    parser = job.make_parser(__doc__)
    job.add_precision(parser)
    job.add_compile(parser)
    return parser


@functools.cache
def load(root, part, device):
    """[N, 1, 28, 28] float32, channels_last, and [N] int64."""
    images, labels = (numbers.to(device) for numbers in job.read_mnist(root, part))
    images = images.unsqueeze(-1).to(torch.float32).div_(255).sub_(job.MEAN).div_(job.STD)
    return images.permute(0, 3, 1, 2), labels.long()


def distributed(network, args, device):
    on_gpu = device.type == "cuda"
    compiled = job.compiles(args)
    if dist.get_world_size() == 1:
        return torch.compile(network, mode="reduce-overhead" if on_gpu else None) if compiled else network
    model = DistributedDataParallel(
        network,
        device_ids=[device.index] if on_gpu else None,
        gradient_as_bucket_view=True,
        static_graph=not compiled,  # the compiler cuts the graph at DDP's buckets, and cannot with it
    )
    return torch.compile(model) if compiled else model


def share_of(count, part):
    """Every so many-th of the first samples: this rank's."""
    return part[dist.get_rank() : count : dist.get_world_size()]


def batches(images, labels, order, batch):
    for indices in order.split(batch):
        yield images[indices], labels[indices]


def train(model, images, labels, args, record):
    fused = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum, fused=True)
    autocast = torch.autocast(images.device.type, torch.bfloat16, enabled=args.precision == "bf16")
    whole = len(images) // args.global_batch * args.global_batch  # a ragged last batch is left out
    model.train()
    for epoch in range(args.epochs):
        generator = torch.Generator(images.device).manual_seed(epoch)  # the same order everywhere
        order = share_of(whole, torch.randperm(len(images), generator=generator, device=images.device))
        for inputs, targets in batches(images, labels, order, args.global_batch // dist.get_world_size()):
            torch.compiler.cudagraph_mark_step_begin()
            fused.zero_grad(set_to_none=True)
            with autocast:
                loss = functional.cross_entropy(model(inputs), targets)
            loss.backward()
            fused.step()
            if record.ended(epoch, loss):
                return


@torch.inference_mode()
def count_correct(network, images, labels, args):
    network.eval()
    mine = share_of(len(images), torch.arange(len(images), device=images.device))
    correct = torch.zeros(1, dtype=torch.int64, device=images.device)
    with torch.autocast(images.device.type, torch.bfloat16, enabled=args.precision == "bf16"):
        for inputs, targets in batches(images, labels, mine, args.global_batch // dist.get_world_size()):
            correct += (network(inputs).argmax(dim=1) == targets).sum()
    dist.all_reduce(correct)
    return correct.item()


def run(networks, args, device):
    torch.backends.cudnn.benchmark = True
    images, labels = load(args.data, "train", device)
    kind = (args.model, args.hidden, args.precision, args.compile, args.global_batch)
    network, model = networks.get(kind, lambda: job.channels_last(job.make_network(args).to(device)),
                                  lambda network: distributed(network, args, device))  # fmt: skip
    record = job.Record(args)
    correct = total = 0
    train(model, images, labels, args, record)
    test_images, test_labels = load(args.data, "t10k", device)
    for _ in range(args.evaluations):
        with job.stopwatch(record.evaluation_seconds):
            correct = count_correct(network, test_images, test_labels, args)
        total = len(test_images)
    record.write(correct, total)


if __name__ == "__main__":
    job.main(make_parser(), functools.partial(run, job.Networks()))

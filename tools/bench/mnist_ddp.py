"""MNIST with plain PyTorch DDP, as the multi-GPU guides write it: what ddprun is compared with.

    torchrun --nproc-per-node 2 tools/bench/mnist_ddp.py --data FOLDER_WITH_MNIST/raw

Fair and plain: nothing is slowed down, nothing is tuned. NCCL where there are GPUs, else Gloo. The lines that measure
are marked; BENCH_STARTED_AT, seconds since 1970, is when the caller began to start it.
"""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, transforms


class ConvNetBn(nn.Module):
    """The network of ddprun's plugin convnet_bn."""

    def __init__(self, classes=10):
        super().__init__()
        self.layer1 = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.layer2 = nn.Sequential(
            nn.Conv2d(16, 32, kernel_size=5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.fc = nn.Linear(7 * 7 * 32, classes)

    def forward(self, x):
        x = self.layer2(self.layer1(x))
        return self.fc(x.flatten(1))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder that holds MNIST/raw")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--max-steps", type=int, default=0, help="0: no limit but the epochs")
    parser.add_argument("--global-batch", type=int, default=200)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--num-workers", type=int, default=0, help="loader processes of each worker")
    parser.add_argument("--threads", type=int, default=1, help="threads of each worker's kernels")
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--json", help="rank 0 writes its results here")
    return parser.parse_args()


def make_loader(root, train, batch, workers, pin_memory):
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    images = datasets.MNIST(root, train=train, transform=transform)
    sampler = DistributedSampler(images, shuffle=train)
    loader = DataLoader(images, batch_size=batch, sampler=sampler, num_workers=workers, pin_memory=pin_memory)
    return loader, sampler


def train(model, loader, sampler, device, args):
    """Returns the times, in seconds since 1970, at which logged steps ended, and the last loss."""
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
    times = {}  # measuring
    step = 0
    model.train()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == 1 or step % args.log_every == 0 or step == args.max_steps:
                last_loss = loss.item()
                times[step] = time.time()  # measuring
                if dist.get_rank() == 0:
                    print(f"epoch {epoch + 1} step {step} loss {last_loss:.4f}", flush=True)
            if step == args.max_steps:
                return times, last_loss
    last_loss = loss.item()
    times[step] = time.time()  # measuring
    return times, last_loss


@torch.no_grad()
def count_correct(model, loader, device):
    model.eval()
    correct = torch.zeros(1, dtype=torch.int64, device=device)
    for images, labels in loader:
        predicted = model(images.to(device)).argmax(dim=1)
        correct += (predicted == labels.to(device)).sum()
    dist.all_reduce(correct)
    return correct.item()


def peak_memory():
    """The most memory that this process ever had resident; ru_maxrss would count torchrun's before the exec."""
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main():
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    on_gpu = args.device == "cuda" or (args.device == "auto" and torch.cuda.is_available())
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    torch.manual_seed(42)

    world = dist.get_world_size()
    batch = args.global_batch // world
    loader, sampler = make_loader(args.data, True, batch, args.num_workers, on_gpu)
    test_loader, _ = make_loader(args.data, False, batch, args.num_workers, on_gpu)
    model = DistributedDataParallel(ConvNetBn().to(device), device_ids=[device.index] if on_gpu else None)

    times, loss = train(model, loader, sampler, device, args)
    correct = count_correct(model.module, test_loader, device)

    peak = torch.tensor([peak_memory()], device=device)
    dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    started_at = float(os.environ.get("BENCH_STARTED_AT", "nan"))
    result = {
        "steps": max(times),
        "global_batch": args.global_batch,
        "first_step_seconds": times[1] - started_at,
        "step_ended_at": {str(step): at for step, at in times.items()},
        "loss": loss,
        "test_correct": correct,
        "test_total": len(test_loader.dataset),
        "peak_rss_bytes": peak.item(),
    }
    if dist.get_rank() == 0:
        print(json.dumps(result))
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(result, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

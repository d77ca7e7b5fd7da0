"""MNIST with plain PyTorch DDP, as the multi-GPU guides write it.

    torchrun --nproc-per-node 2 tools/dev/measure/peers/mnist/plain.py --data FOLDER_WITH_MNIST/raw

Fair and plain: nothing is slowed down, nothing is tuned. What measures is in ../peer_worker.py.
"""

import job
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def make_parser():
    parser = job.make_parser(__doc__)
    parser.add_argument("--save-every", type=int, default=0, help="steps between checkpoints; 0: none")
    parser.add_argument("--save-to", default="checkpoint.pt")
    return parser


def make_loader(args, train, pin_memory):
    images = job.mnist(args.data, train)
    sampler = DistributedSampler(images, shuffle=train)
    batch = args.global_batch // dist.get_world_size()
    return DataLoader(images, batch, sampler=sampler, num_workers=args.num_workers, pin_memory=pin_memory)


def train(model, loader, device, args, record):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
    model.train()
    for epoch in range(args.epochs):
        loader.sampler.set_epoch(epoch)
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            last = record.ended(epoch, loss)
            if args.save_every and record.step % args.save_every == 0 and dist.get_rank() == 0:
                save(model.module, optimizer, args.save_to, record)
            if last:
                return


def save(model, optimizer, path, record):
    with job.stopwatch(record.save_seconds):
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


@torch.no_grad()
def count_correct(model, loader, device):
    model.eval()
    correct = torch.zeros(1, dtype=torch.int64, device=device)
    for images, labels in loader:
        predicted = model(images.to(device)).argmax(dim=1)
        correct += (predicted == labels.to(device)).sum()
    dist.all_reduce(correct)
    return correct.item()


def run(args, device):
    on_gpu = device.type == "cuda"
    loader, test_loader = (make_loader(args, is_train, on_gpu) for is_train in (True, False))
    model = DistributedDataParallel(job.make_network(args).to(device), device_ids=[device.index] if on_gpu else None)
    record = job.Record(args)
    correct = total = 0
    train(model, loader, device, args, record)
    for _ in range(args.evaluations):
        with job.stopwatch(record.evaluation_seconds):
            correct = count_correct(model.module, test_loader, device)
        total = len(test_loader.dataset)
    record.write(correct, total, data_set=type(loader.dataset).__name__)


if __name__ == "__main__":
    job.main(make_parser(), run)

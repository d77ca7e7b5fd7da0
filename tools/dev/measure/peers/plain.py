"""MNIST or CIFAR-100 with plain PyTorch DDP, as the multi-GPU guides write it.

    torchrun --nproc-per-node 2 tools/dev/measure/peers/plain.py --max-steps 300 --data FOLDER_WITH_MNIST/raw

DDP, a DataLoader that takes image by image, autocast with a GradScaler where the precision is another one. Nothing is slowed down or
tuned; what such a guide has to say on speed is in it: page-locked batches, loader processes that outlive an epoch.
"""

import itertools

import networks
import torch
import torch.distributed as dist
import worker
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


class Cifar100(Dataset):
    """Like torchvision's, of any number of images and without it, since it is not everywhere: crops and mirrors a picture for each
    index."""

    def __init__(self, root):
        self.images, labels = networks.read_cifar100(root)
        self.labels = labels.tolist()
        self.mean, self.std = (torch.tensor(values).view(3, 1, 1) for values in (networks.CIFAR_MEAN, networks.CIFAR_STD))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        padded = nn.functional.pad(self.images[index], (networks.PADDING,) * 4)
        top, left = torch.randint(2 * networks.PADDING + 1, (2,)).tolist()
        image = padded[:, top : top + networks.SIDE, left : left + networks.SIDE]
        if torch.rand(()) < 0.5:
            image = image.flip(2)
        return image.to(torch.float32).div_(255).sub_(self.mean).div_(self.std), self.labels[index]


def mnist(root):
    from torchvision import datasets, transforms  # here: CIFAR-100 does without

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((networks.MNIST_MEAN,), (networks.MNIST_STD,))])
    return datasets.MNIST(root, transform=transform)


def make_loader(args):
    images = Cifar100(args.data) if args.model == "wide_resnet" else mnist(args.data)
    return DataLoader(images, args.global_batch // dist.get_world_size(), sampler=DistributedSampler(images), drop_last=True,
                      num_workers=args.num_workers, pin_memory=args.device == "cuda", persistent_workers=args.num_workers > 0)  # fmt: skip


def train(model, loader, device, args, record):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=worker.MOMENTUM, weight_decay=args.weight_decay)
    scaler = torch.amp.GradScaler(device.type, enabled=args.precision == "fp16")
    autocast = torch.autocast(device.type, TYPES.get(args.precision), enabled=args.precision in TYPES)
    model.train()
    for epoch in itertools.count():
        loader.sampler.set_epoch(epoch)
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            with autocast:
                loss = criterion(model(images), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if record.ended(loss):
                return


def run(args, device):
    loader = make_loader(args)
    device_ids = [device.index] if device.type == "cuda" else None
    model = DistributedDataParallel(networks.make(args).to(device), device_ids=device_ids)
    record = worker.Record(args)
    train(model, loader, device, args, record)
    record.write()


if __name__ == "__main__":
    worker.main(worker.make_parser(__doc__), run)

"""CIFAR-100 with a wide residual network in mixed precision, as the guides to training on a cluster's GPUs write it.

    torchrun --nproc-per-node 1 tools/dev/measure/peers/cifar/plain.py --data FOLDER_WITH_cifar-100-binary --num-workers 16

DDP, a DataLoader with worker processes that crop and mirror image by image, autocast with a GradScaler. Nothing is slowed down; what
such a guide has to say on speed is in it: page-locked batches, workers that outlive an epoch, cuDNN's choice of algorithms.
"""

import job
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def make_parser():
    parser = job.make_parser(__doc__)
    parser.add_argument("--precision", choices=["fp32", *TYPES], default="fp16")
    return parser


class Images(Dataset):
    """Like torchvision's CIFAR100: bytes in memory, a picture made and transformed for each index."""

    def __init__(self, root):
        images, labels = job.read_training_images(root)
        self.labels = labels.tolist()
        self.transform, self.images = with_torchvision(images) or (augment, images)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(self.images[index]), self.labels[index]


def with_torchvision(images):
    """None where it is not installed."""
    try:
        from PIL import Image
        from torchvision import transforms
    except ImportError:
        return None
    return transforms.Compose([
        Image.fromarray,
        transforms.RandomCrop(job.SIDE, padding=job.PADDING),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(job.MEAN, job.STD),
    ]), images.permute(0, 2, 3, 1).contiguous().numpy()  # fmt: skip


def augment(image):
    """The same with tensors alone."""
    padded = nn.functional.pad(image, (job.PADDING,) * 4)
    top, left = torch.randint(2 * job.PADDING + 1, (2,)).tolist()
    image = padded[:, top : top + job.SIDE, left : left + job.SIDE]
    if torch.rand(()) < 0.5:
        image = image.flip(2)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (job.MEAN, job.STD))
    return image.to(torch.float32).div_(255).sub_(mean).div_(std)


def make_loader(args, on_gpu):
    images = Images(args.data)
    sampler = DistributedSampler(images)
    return DataLoader(images, args.global_batch // dist.get_world_size(), sampler=sampler, drop_last=True,
                      num_workers=args.num_workers, pin_memory=on_gpu, persistent_workers=args.num_workers > 0)  # fmt: skip


def train(model, loader, device, args, record):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum, weight_decay=args.weight_decay)
    scaler = torch.amp.GradScaler(device.type, enabled=args.precision == "fp16")
    autocast = torch.autocast(device.type, TYPES.get(args.precision), enabled=args.precision in TYPES)
    model.train()
    for epoch in range(args.epochs):
        loader.sampler.set_epoch(epoch)
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            with autocast:
                loss = criterion(model(images), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if record.ended(epoch, loss):
                return


def run(args, device):
    torch.backends.cudnn.benchmark = True
    on_gpu = device.type == "cuda"
    loader = make_loader(args, on_gpu)
    network = job.WideResNet(args.depth, args.widen_factor).to(device)
    model = DistributedDataParallel(network, device_ids=[device.index] if on_gpu else None)
    record = job.Record(args)
    train(model, loader, device, args, record)
    record.write(with_torchvision=loader.dataset.transform is not augment)


if __name__ == "__main__":
    job.main(make_parser(), run)

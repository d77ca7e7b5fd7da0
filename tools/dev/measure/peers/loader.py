"""Pulls training batches out of torchvision's datasets through a DataLoader as fast as they come, without a model.

    .venv-bench/bin/python tools/dev/measure/peers/loader.py --dataset mnist --data FOLDER_WITH_MNIST/raw

MNIST as in mnist/plain.py; CIFAR-100 with the crop and flip that guides give it; photographs with the random resized crop and the
flip of torchvision's references, and in photos_recipe with their TrivialAugment and erasing too. One line of JSON.
"""

import argparse
import itertools
import json
import time

import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

WARM_UP = 20  # batches


class Cifar100(datasets.CIFAR100):
    """Of files of any number of images: without the checksums of the real ones."""

    train_list, test_list, meta = [["train", None]], [["test", None]], {**datasets.CIFAR100.meta, "md5": None}


def mnist(root):
    return datasets.MNIST(root, transform=transforms.Compose([
        transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))
    ]))  # fmt: skip


def cifar100(root):
    return Cifar100(root, transform=transforms.Compose([
        transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    ]))  # fmt: skip


def photos(root, *, recipe=False):
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
    if recipe:
        steps.append(transforms.TrivialAugmentWide(interpolation=transforms.InterpolationMode.BILINEAR))
    steps += [transforms.PILToTensor(), transforms.ConvertImageDtype(torch.float),
              transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]  # fmt: skip
    if recipe:
        steps.append(transforms.RandomErasing(0.1))
    return datasets.ImageFolder(root, transforms.Compose(steps))


def photos_recipe(root):
    return photos(root, recipe=True)


DATASETS = {"mnist": mnist, "cifar100": cifar100, "photos": photos, "photos_recipe": photos_recipe}


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", choices=DATASETS, required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--batches", type=int, default=500)
    args = parser.parse_args()
    torch.set_num_threads(1)
    images = DATASETS[args.dataset](args.data)
    batches = endless(DataLoader(images, args.batch, shuffle=True))
    for _ in itertools.islice(batches, min(WARM_UP, args.batches)):
        pass
    began, cpu_began = time.perf_counter(), time.process_time()
    count = sum(len(labels) for _, labels in itertools.islice(batches, args.batches))
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    print(json.dumps({"images": count, "seconds": seconds, "cpu_seconds": cpu_seconds}))


if __name__ == "__main__":
    main()

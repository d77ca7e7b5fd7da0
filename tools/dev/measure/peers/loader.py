"""Pulls training batches out of torchvision's datasets through a DataLoader as fast as they come, without a model.

    .venv-bench/bin/python tools/dev/measure/peers/loader.py --dataset mnist --data FOLDER_WITH_MNIST/raw

MNIST as in plain.py; photographs with the random resized crop and the flip of torchvision's references. One line of JSON.
"""

import argparse
import itertools
import json
import time

import plain
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

WARM_UP = 20  # batches


def photos(root):
    return datasets.ImageFolder(root, transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.PILToTensor(),
        transforms.ConvertImageDtype(torch.float),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]))  # fmt: skip


DATASETS = {"mnist": plain.mnist, "photos": photos}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", choices=DATASETS, required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--batches", type=int, default=500)
    parser.add_argument("--json", help="writes the result here, too")
    args = parser.parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(DATASETS[args.dataset](args.data), args.batch, shuffle=True)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for _ in itertools.islice(batches, min(WARM_UP, args.batches)):
        pass
    began = time.perf_counter()
    count = sum(len(labels) for _, labels in itertools.islice(batches, args.batches))
    result = json.dumps({"images": count, "seconds": time.perf_counter() - began})
    print(result)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            file.write(result)


if __name__ == "__main__":
    main()

"""airbench94 of Keller Jordan's package airbench, as its README calls it: a warm-up, then CIFAR-10 to 94 %.

    python3 tools/dev/measure/peers/cifar/airbench94.py --prepare --data FOLDER_WITH_cifar-10-batches-bin
    python3 tools/dev/measure/peers/cifar/airbench94.py --data FOLDER_WITH_cifar-10-batches-bin --json result.json

It runs in the folder --data: the package looks for its own files, which --prepare makes, in `cifar10` there. Needs a GPU. Nothing is
evaluated between the epochs, as in ddprun's run beside it.
"""

import argparse
import json
import os
import pathlib
import time

import torch

RECORD = 1 + 3 * 32 * 32  # a label, and planes of red, green and blue


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=pathlib.Path, help="folder that holds cifar-10-batches-bin")
    parser.add_argument("--prepare", action="store_true", help="only make the package's files")
    parser.add_argument("--json", type=pathlib.Path, help="write what was measured here")
    return parser.parse_args()


def prepare(folder):
    """What the package would make of torchvision's download."""
    (folder / "cifar10").mkdir(exist_ok=True)
    parts = {"train": [f"data_batch_{number}.bin" for number in range(1, 6)], "test": ["test_batch.bin"]}
    for part, names in parts.items():
        contents = b"".join((folder / "cifar-10-batches-bin" / name).read_bytes() for name in names)
        records = torch.frombuffer(bytearray(contents), dtype=torch.uint8).view(-1, RECORD)
        images = records[:, 1:].reshape(-1, 3, 32, 32).permute(0, 2, 3, 1).contiguous()
        classes = [str(number) for number in range(10)]
        torch.save({"images": images, "labels": records[:, 0].long(), "classes": classes}, folder / f"cifar10/{part}.pt")


def seconds_and_accuracy():
    """Of one training, as the package times it: loading and the warm-up do not count, the evaluation does."""
    import airbench
    from airbench.lib_airbench94 import hyp

    airbench.warmup94()  # a step
    batch = hyp["opt"]["batch_size"]
    training = airbench.CifarLoader("cifar10", train=True, batch_size=batch, aug=hyp["aug"], altflip=True)
    test = airbench.CifarLoader("cifar10", train=False, batch_size=2000)
    torch.cuda.synchronize()
    began = time.perf_counter()
    network = airbench.train94(train_loader=training, verbose=False)
    accuracy = airbench.evaluate(network, test, hyp["net"]["tta_level"])  # reads the result: it waits for the GPU
    return time.perf_counter() - began, accuracy


def main():
    args = parse_arguments()
    os.chdir(args.data)
    if args.prepare:
        prepare(args.data.resolve())
        return
    seconds, accuracy = seconds_and_accuracy()
    result = json.dumps({"train_seconds": seconds, "accuracy": accuracy})
    print(result)
    if args.json:
        args.json.write_text(result)


if __name__ == "__main__":
    main()

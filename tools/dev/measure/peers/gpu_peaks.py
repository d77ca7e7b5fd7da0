"""What this machine's Python has, and what its GPU reaches: one line of JSON.

    python3 tools/dev/measure/peers/gpu_peaks.py --device cuda

Operations a second of a large bf16 matrix product of random numbers, bytes a second that a large copy reads and writes.
"""

import argparse
import importlib.util
import json
import platform
import statistics
import time

import torch

REPEATS, ROUNDS = 10, 5


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--size", type=int, default=8192, help="rows and columns of the matrices")
    parser.add_argument("--bytes", type=int, default=1 << 32, help="of the copy's source")
    return parser.parse_args()


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(action, device):
    """Of one call: the median of some rounds, after one that does not count."""
    seconds = []
    for _ in range(1 + ROUNDS):
        synchronize(device)
        began = time.perf_counter()
        for _ in range(REPEATS):
            action()
        synchronize(device)
        seconds.append((time.perf_counter() - began) / REPEATS)
    return statistics.median(seconds[1:])


def matrix_product(device, size):
    a, b = (torch.randn(size, size, device=device).to(torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    return 2 * size**3 / seconds_of(lambda: torch.mm(a, b, out=out), device)


def copy(device, size):
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / seconds_of(lambda: target.copy_(source), device)


def version_of(module):
    if importlib.util.find_spec(module) is None:
        return None
    return getattr(__import__(module), "__version__", "unknown")


def versions(device):
    on_gpu = device == "cuda"
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if on_gpu else None,
        "tf32_convolutions": torch.backends.cudnn.allow_tf32,
        "float32_products": torch.get_float32_matmul_precision(),
        "torchvision": version_of("torchvision"),
        "airbench": importlib.util.find_spec("airbench") is not None,
        "gpu": torch.cuda.get_device_name() if on_gpu else None,
    }


def main():
    args = parse_arguments()
    peaks = {
        "operations_per_second": matrix_product(args.device, args.size),
        "bytes_per_second": copy(args.device, args.bytes),
    }
    print(json.dumps({"versions": versions(args.device), "peaks": peaks}))


if __name__ == "__main__":
    main()

"""Calculates from measured numbers: the roofline of a network on a GPU, and more GPUs than are there."""

import dataclasses

FIRST_BUCKET_BYTES, BUCKET_BYTES = 1 << 20, 25 << 20  # of LibTorch's Reducer
GRADIENT_BYTES = 4  # float32
# NVLink as NCCL's ring uses it on an H100's 8 GPUs; a link of PCIe's class.
BUS_BANDWIDTHS = {"NVLink, 370 GB/s": 370e9, "PCIe, 20 GB/s": 20e9}


@dataclasses.dataclass(frozen=True)
class Roofline:
    """Returns the most images a second that a GPU could train."""

    compute: float  # were it for the matrix units alone
    memory: float  # were it for the memory alone, with kernels that are not fused
    both: float  # one after the other: what eager execution can hope for


def roofline(cost, operations_per_second, bytes_per_second):
    compute = operations_per_second / cost.training_operations
    memory = bytes_per_second / cost.traffic_bytes()
    return Roofline(compute, memory, 1 / (1 / compute + 1 / memory))


@dataclasses.dataclass(frozen=True)
class Bucket:
    gradient_bytes: int
    ready: float  # the share of backward after which its last gradient is there


def buckets(layers):
    """Fills buckets like the Reducer: from the last layer to the first, the first bucket smaller than the others. A
    layer takes the share of backward that it has of all operations.
    """
    total = sum(layer.operations for layer in layers)
    filled, size, done, limit = [], 0, 0, FIRST_BUCKET_BYTES
    for layer in reversed(layers):
        done += layer.operations
        size += layer.parameters * GRADIENT_BYTES
        if size >= limit:
            filled.append(Bucket(size, done / total))
            size, limit = 0, BUCKET_BYTES
    if size:
        filled.append(Bucket(size, 1.0))
    return filled


def all_reduce_seconds(gradient_bytes, gpus, bytes_per_second):
    """Returns the time of a ring: every byte travels 2 (n - 1) / n times over the stated bus bandwidth."""
    return gradient_bytes * 2 * (gpus - 1) / gpus / bytes_per_second


@dataclasses.dataclass(frozen=True)
class Exchange:
    total_seconds: float  # of all buckets
    shown_seconds: float  # of these what lies after the end of backward
    efficiency: float  # of one GPU's speed that each keeps


def exchange(filled, gpus, bytes_per_second, backward_seconds, step_seconds):
    """Sends buckets one after the other, each as soon as it is ready; ignores latency and waiting for slower GPUs."""
    total = end = 0.0
    for bucket in filled:
        seconds = all_reduce_seconds(bucket.gradient_bytes, gpus, bytes_per_second)
        total += seconds
        end = max(end, bucket.ready * backward_seconds) + seconds
    shown = max(0.0, end - backward_seconds)
    return Exchange(total, shown, step_seconds / (step_seconds + shown))

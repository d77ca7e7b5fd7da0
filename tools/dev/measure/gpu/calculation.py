"""Calculates from measured numbers: the roofline of a wide residual network on a GPU, and more GPUs than are there. What a step costs is
counted layer by layer: operations, memory traffic, parameters. Traffic is that of kernels that are not fused: every operation reads its
inputs from the GPU's memory and writes its outputs there."""

import dataclasses

SIDE = 32  # of an image
BACKWARD_OF_FORWARD = 2  # a convolution's backward is two of them: for its input and for its filters
# Passes over memory, forward and backward together, in sizes of what the operation reads or writes.
CONVOLUTION, BATCH_NORM, RELU, ADD = 3, 3 + 5, 2 + 3, 3 + 3


@dataclasses.dataclass(frozen=True)
class Layer:
    """One with weights. Sizes are numbers of one image."""

    inputs: int
    outputs: int
    parameters: int
    operations: int  # of forward


@dataclasses.dataclass(frozen=True)
class Cost:
    layers: tuple  # as forward calls them
    traffic: int  # numbers read and written for one image, forward and backward

    @property
    def parameters(self):
        return sum(layer.parameters for layer in self.layers)

    @property
    def training_operations(self):
        """Of one image: multiplications and additions, forward and backward."""
        return (1 + BACKWARD_OF_FORWARD) * sum(layer.operations for layer in self.layers)

    def traffic_bytes(self, bytes_of_number=2):
        return self.traffic * bytes_of_number


class _Counter:
    def __init__(self):
        self.layers = []
        self.traffic = 0

    def convolution(self, inputs, outputs, kernel, side, stride=1):
        after = side // stride
        weights = inputs * outputs * kernel * kernel
        layer = Layer(inputs * side * side, outputs * after * after, weights, 2 * weights * after * after)
        self.layers.append(layer)
        self.traffic += CONVOLUTION * (layer.inputs + layer.outputs)

    def normalised(self, channels, side):
        """BatchNorm, then ReLU."""
        size = channels * side * side
        self.layers.append(Layer(size, size, 2 * channels, 0))
        self.traffic += (BATCH_NORM + RELU) * size

    def block(self, inputs, outputs, side, stride):
        after = side // stride
        self.normalised(inputs, side)
        self.convolution(inputs, outputs, 3, side, stride)
        self.normalised(outputs, after)
        self.convolution(outputs, outputs, 3, after)
        if inputs != outputs:
            self.convolution(inputs, outputs, 1, side, stride)
        self.traffic += ADD * outputs * after * after

    def linear(self, inputs, outputs):
        self.layers.append(Layer(inputs, outputs, (inputs + 1) * outputs, 2 * inputs * outputs))


def wide_resnet(depth, widen_factor, classes=100):
    """WRN-depth-widen_factor on images of 3 x 32 x 32."""
    count = _Counter()
    count.convolution(3, 16, 3, SIDE)
    channels, side = 16, SIDE
    for width, first_stride in ((16, 1), (32, 2), (64, 2)):
        for number in range((depth - 4) // 6):
            stride = first_stride if number == 0 else 1
            count.block(channels, width * widen_factor, side, stride)
            channels, side = width * widen_factor, side // stride
    count.normalised(channels, side)
    count.linear(channels, classes)
    return Cost(tuple(count.layers), count.traffic)


# --- what follows ----------------------------------------------------------------------------------------------------

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

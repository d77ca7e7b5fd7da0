"""What a step of a wide residual network costs, counted layer by layer: operations, memory traffic, parameters.

Traffic is that of kernels that are not fused: every operation reads its inputs from the GPU's memory and writes its outputs there.
"""

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

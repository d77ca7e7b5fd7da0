"""What the tables work with, and what there is to measure: the same for tools/dev/measure/run and tools/gpu_check."""

import dataclasses
import functools
import pathlib
import sys

from measure import data, table
from measure.comparisons import loader, same_bits, scaling, training, wide_resnet

BY_NAME = {one.name: one for module in (training, loader, same_bits, scaling, wide_resnet) for one in module.TABLES}


@dataclasses.dataclass(eq=False)  # so that what is made of it can be cached
class Bench:
    program: str  # ddprun
    folder: pathlib.Path
    device: str = "cpu"
    python: str = sys.executable  # of the peers
    environment: dict = dataclasses.field(default_factory=dict)  # of ddprun
    rehearse: bool = False  # with little to train
    pairs: int = 5
    timeout: float = 600  # seconds of a run
    model: tuple = ("convnet_bn", "convnet")
    precision: tuple = ("fp32",)
    peer: tuple = ("plain", "expert", "lightning")
    data: tuple = ("mnist", "photos")
    steps: int = 300
    warm_up: int = 50
    global_batch: int = 200
    workers: int = 2
    threads: int = 1  # of each

    @functools.cached_property
    def mnist(self):
        """The folder of MNIST/raw."""
        return data.lay_out_mnist(self.folder / "mnist")

    @functools.cached_property
    def photos(self):
        return data.lay_out_photos(self.folder / "photos")

    def measure(self, name, share):
        return table.measure(BY_NAME[name], self, share)

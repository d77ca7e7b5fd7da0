"""How much is trained in each table: as long as a GPU needs to show its speed, or just so much that the script is tried."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Sizes:
    mnist_batch: int = 100
    mnist_steps: int = 6000
    mnist_warm_up: int = 600  # an epoch; the loss is read as often
    plain_mnist_steps: int = 600  # of the script that is many times slower; the speed is one of steady steps
    plain_mnist_warm_up: int = 100
    evaluations: int = 1  # of the test images by the peers
    cifar_images: int = 49_152  # 48 whole batches: no side has a ragged one
    cifar_batch: int = 1024
    cifar_steps: int = 144
    cifar_warm_up: int = 48
    network: tuple = (16, 4)  # depth and widen_factor of configs/model/wide_resnet.yaml
    large_network: tuple = (28, 10)
    large_batch: int = 512
    large_steps: int = 72
    large_warm_up: int = 24
    half: str = "fp16"
    precisions: tuple = ("tf32", "fp32", "fp32_exact")  # beside bf16
    matrix: int = 8192
    copied_bytes: int = 1 << 32
    speedrun: tuple = ()  # more overrides
    cifar10_records: int = 10_000


REHEARSAL = Sizes(
    mnist_batch=50,
    mnist_steps=16,
    mnist_warm_up=4,
    plain_mnist_steps=16,
    plain_mnist_warm_up=4,
    evaluations=0,
    cifar_images=256,
    cifar_batch=32,
    cifar_steps=6,
    cifar_warm_up=2,
    network=(10, 1),
    large_network=(10, 2),
    large_batch=32,
    large_steps=6,
    large_warm_up=2,
    half="bf16",  # fp16 needs a GPU, as tf32 does
    precisions=("fp32",),
    matrix=256,
    copied_bytes=1 << 24,
    speedrun=("dataset.limit_train=200", "trainer.global_batch=50", "trainer.max_epochs=1", "model.widths=[8,8,8]",
              "model.whitening_images=50", "model.tta=none", "trainer.eval_batch=200"),
    cifar10_records=200,
)  # fmt: skip

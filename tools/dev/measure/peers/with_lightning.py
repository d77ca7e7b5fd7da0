"""MNIST with Lightning, as its guide writes it. It starts the workers itself.

    .venv-bench/bin/python tools/dev/measure/peers/with_lightning.py --workers 2 --max-steps 300 --data FOLDER_WITH_MNIST/raw

Logger, progress bar, checkpoints and summary are off, so that nothing slows it that the plain script does not have.
"""

import warnings

import lightning
import networks
import plain
import torch
import worker
from torch.nn import functional
from torch.utils.data import DataLoader


class Classifier(lightning.LightningModule):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.network = networks.make(args)

    def training_step(self, batch, _):
        images, labels = batch
        return functional.cross_entropy(self.network(images), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.args.lr, momentum=worker.MOMENTUM)


class Measure(lightning.Callback):
    def __init__(self, record):
        self.record = record

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_index):
        self.record.ended(outputs["loss"])


def parse_arguments():
    parser = worker.make_parser(__doc__)
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args()


def main():
    args = parse_arguments()
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    torch.set_num_threads(args.threads)
    lightning.seed_everything(42, verbose=False)
    record = worker.Record(args)
    on_gpu = args.device == "cuda"
    trainer = lightning.Trainer(
        accelerator="gpu" if on_gpu else "cpu",
        devices=args.workers,
        strategy="ddp",
        max_epochs=-1,
        max_steps=args.max_steps,
        precision="bf16-mixed" if args.precision == "bf16" else "32-true",
        callbacks=[Measure(record)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    images = DataLoader(plain.mnist(args.data), args.global_batch // args.workers, shuffle=True, num_workers=args.num_workers,
                        pin_memory=on_gpu)  # fmt: skip
    trainer.fit(Classifier(args), images)
    record.write()
    worker.leave()


if __name__ == "__main__":
    main()

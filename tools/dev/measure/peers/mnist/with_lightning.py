"""MNIST with Lightning, as its guide writes it. It starts the workers itself.

    .venv-bench/bin/python tools/dev/measure/peers/mnist/with_lightning.py --workers 2 --data FOLDER_WITH_MNIST/raw

Logger, progress bar, checkpoints and summary are off, so that nothing slows it that the plain script does not have.
"""

import warnings

import job
import lightning
import torch
from torch.nn import functional
from torch.utils.data import DataLoader


class Classifier(lightning.LightningModule):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.network = job.make_network(args)
        self.correct = 0

    def training_step(self, batch, _):
        images, labels = batch
        return functional.cross_entropy(self.network(images), labels)

    def test_step(self, batch, _):
        images, labels = batch
        self.correct += (self.network(images).argmax(dim=1) == labels).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.args.lr, momentum=self.args.momentum)


class Measure(lightning.Callback):
    def __init__(self, record):
        self.record = record

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_index):
        if self.record.due(trainer.global_step):
            self.record.log(trainer.current_epoch, trainer.global_step, outputs["loss"])


def parse_arguments():
    parser = job.make_parser(__doc__)
    job.add_precision(parser)
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args()


def make_loader(args, train):
    batch = args.global_batch // args.workers
    return DataLoader(job.mnist(args.data, train), batch, shuffle=train, num_workers=args.num_workers,
                      pin_memory=job.runs_on_gpu(args))  # fmt: skip


def main():
    args = parse_arguments()
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    torch.set_num_threads(args.threads)
    lightning.seed_everything(42, verbose=False)
    record = job.Record(args)
    trainer = lightning.Trainer(
        accelerator="gpu" if job.runs_on_gpu(args) else "cpu",
        devices=args.workers,
        strategy="ddp",
        max_epochs=args.epochs,
        max_steps=args.max_steps or -1,
        precision="bf16-mixed" if args.precision == "bf16" else "32-true",
        callbacks=[Measure(record)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Classifier(args)
    trainer.fit(model, make_loader(args, train=True))
    test_loader = make_loader(args, train=False)
    for _ in range(args.evaluations):
        model.correct = 0
        with job.stopwatch(record.evaluation_seconds):
            trainer.test(model, test_loader, verbose=False)
            correct = trainer.strategy.reduce(model.correct, reduce_op="sum").item()
    record.write(correct, len(test_loader.dataset))
    job.leave()


if __name__ == "__main__":
    main()

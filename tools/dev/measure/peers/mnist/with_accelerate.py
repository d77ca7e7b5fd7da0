"""MNIST with Hugging Face Accelerate, as its guide writes it.

    torchrun --nproc-per-node 2 tools/dev/measure/peers/mnist/with_accelerate.py --data FOLDER_WITH_MNIST/raw

`accelerate launch --cpu` starts one worker, whatever it is told, without MPI; the guide names torchrun as the other way.
"""

import job
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional
from torch.utils.data import DataLoader


def parse_arguments():
    parser = job.make_parser(__doc__)
    job.add_precision(parser)
    return parser.parse_args()


def train(accelerator, model, optimizer, loader, args, record):
    model.train()
    for epoch in range(args.epochs):
        for images, labels in loader:
            loss = functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            if record.ended(epoch, loss):
                return


@torch.no_grad()
def count_correct(accelerator, model, loader):
    model.eval()
    correct = 0
    for images, labels in loader:
        predicted, truth = accelerator.gather_for_metrics((model(images).argmax(dim=1), labels))
        correct += (predicted == truth).sum().item()
    return correct


def main():
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    on_gpu = job.runs_on_gpu(args)
    accelerator = Accelerator(cpu=not on_gpu, mixed_precision="bf16" if args.precision == "bf16" else "no")
    set_seed(42)
    batch = args.global_batch // accelerator.num_processes
    loader, test_loader = (
        DataLoader(job.mnist(args.data, is_train), batch, shuffle=is_train, num_workers=args.num_workers,
                   pin_memory=on_gpu)
        for is_train in (True, False)
    )  # fmt: skip
    model = job.make_network(args)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
    model, optimizer, loader, test_loader = accelerator.prepare(model, optimizer, loader, test_loader)
    record = job.Record(args)
    train(accelerator, model, optimizer, loader, args, record)
    for _ in range(args.evaluations):
        with job.stopwatch(record.evaluation_seconds):
            correct = count_correct(accelerator, model, test_loader)
    record.write(correct, len(test_loader.dataset))
    accelerator.end_training()
    job.leave()


if __name__ == "__main__":
    main()

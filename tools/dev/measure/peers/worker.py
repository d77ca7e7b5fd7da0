"""What the scripts beside ddprun share: the words on the command line, the group of workers, and what is measured."""

import argparse
import json
import os
import sys
import time

import networks
import torch
import torch.distributed as dist

MOMENTUM = 0.9  # of SGD


def make_parser(text):
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", required=True, help="folder that holds MNIST/raw, or cifar-100-binary")
    add("--model", choices=networks.NETWORKS, default="convnet_bn", help="wide_resnet trains on CIFAR-100, others on MNIST")
    add("--depth", type=int, default=16, help="of wide_resnet")
    add("--widen-factor", type=int, default=4, help="of wide_resnet")
    add("--precision", choices=["fp32", "bf16", "fp16"], default="fp32")
    add("--max-steps", type=int, required=True)
    add("--global-batch", type=int, default=200)
    add("--lr", type=float, default=0.01)
    add("--weight-decay", type=float, default=0.0)
    add("--threads", type=int, default=1, help="threads of each worker's kernels")
    add("--num-workers", type=int, default=0, help="loader processes of each worker, where it has a DataLoader")
    add("--log-every", type=int, default=50)
    add("--device", choices=["cpu", "cuda"], default="cpu")
    add("--json", help="rank 0 writes its results here")
    return parser


def start_worker(args):
    """The group of all workers, NCCL where there are GPUs, else Gloo; and this worker's device."""
    torch.set_num_threads(args.threads)
    on_gpu = args.device == "cuda"
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    return device


def main(parser, train):
    args = parser.parse_args()
    device = start_worker(args)
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(42)
    train(args, device)
    leave()


def leave():
    """Ends the worker when all have got here. LibTorch 2.11 aborts now and then while it takes a group of Gloo's apart ("terminate
    called without an active exception"), after all is done."""
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


class Record:
    """What is measured in one worker."""

    def __init__(self, args):
        self.args = args
        self.step = 0
        self.step_ended_at = {}  # of the steps whose loss was read, seconds since 1970
        self.losses = {}

    def ended(self, loss):
        """After each step: reads its loss where that is due, which on a GPU waits for it. Whether it was the last."""
        self.step += 1
        last = self.step == self.args.max_steps
        if self.step == 1 or self.step % self.args.log_every == 0 or last:
            self.losses[self.step] = loss.item()
            self.step_ended_at[self.step] = time.time()
        return last

    def write(self):
        """On rank 0 one line of JSON, and the file."""
        if dist.get_rank() != 0:
            return
        result = json.dumps({"step_ended_at": self.step_ended_at, "losses": self.losses, "peak_rss_bytes": peak_memory()})
        print(result)
        if self.args.json:
            with open(self.args.json, "w", encoding="utf-8") as file:
                file.write(result)


def peak_memory():
    """The most memory that this process ever had resident; ru_maxrss would count torchrun's before the exec."""
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024

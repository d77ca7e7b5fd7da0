"""What the scripts beside ddprun share, whatever they train: the words on the command line, the group of workers, what is measured,
and standing by.

BENCH_STARTED_AT, seconds since 1970, is when the caller began to start the script.
"""

import argparse
import contextlib
import json
import math
import os
import sys
import time

import torch
import torch.distributed as dist


def make_parser(text):
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--epochs", type=int, default=1)
    add("--max-steps", type=int, default=0, help="0: no limit but the epochs")
    add("--global-batch", type=int, default=200)
    add("--lr", type=float, default=0.01)
    add("--momentum", type=float, default=0.9)
    add("--threads", type=int, default=1, help="threads of each worker's kernels")
    add("--num-workers", type=int, default=0, help="loader processes of each worker, where it has a DataLoader")
    add("--log-every", type=int, default=50)
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    add("--json", help="rank 0 writes its results here")
    return parser


def add_compile(parser):
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, help="default: on GPUs only")


def runs_on_gpu(args):
    return args.device == "cuda" or (args.device == "auto" and torch.cuda.is_available())


def compiles(args):
    return runs_on_gpu(args) if args.compile is None else args.compile


def start_worker(args):
    """The group of all workers, NCCL where there are GPUs, else Gloo; and this worker's device."""
    torch.set_num_threads(args.threads)
    on_gpu = runs_on_gpu(args)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    return device


def main(parser, train):
    """Trains as the command line says; with --serve once for each line of stdin, a list of more words as JSON."""
    parser.add_argument("--serve", action="store_true", help="stand by for lines of words; DONE follows each")
    args = parser.parse_args()
    device = start_worker(args)
    if args.serve:
        serve(parser, train, device)
    else:
        torch.manual_seed(42)
        train(args, device)
    leave()


def serve(parser, train, device):
    print("READY", flush=True)
    for line in sys.stdin:
        torch.manual_seed(42)
        train(parser.parse_args([*sys.argv[1:], *json.loads(line)]), device)
        print("DONE", flush=True)


def leave():
    """Ends the worker when all have got here. LibTorch 2.11 aborts now and then while it takes a group of Gloo's apart ("terminate
    called without an active exception"), after all is done."""
    if dist.is_initialized():
        dist.barrier()
    sys.stdout.flush()
    os._exit(0)


def rank():
    return dist.get_rank() if dist.is_initialized() else 0


class Record:
    """What is measured in one worker."""

    def __init__(self, args):
        self.args = args
        self.step = 0
        self.step_ended_at = {}  # of the steps whose loss was read, seconds since 1970
        self.losses = {}
        self.evaluation_seconds = []
        self.save_seconds = []

    @property
    def loss(self):
        """The last that was read."""
        return self.losses[max(self.losses)] if self.losses else math.nan

    def due(self, step):
        """Whether the loss of this step is read, which on a GPU waits for it."""
        return step == 1 or step % self.args.log_every == 0 or step == self.args.max_steps

    def log(self, epoch, step, loss):
        self.losses[step] = loss.item()
        self.step_ended_at[step] = time.time()
        if rank() == 0:
            print(f"epoch {epoch + 1} step {step} loss {self.loss:.4f}", flush=True)

    def ended(self, epoch, loss):
        """After each step: counts it, and reads its loss where that is due. Whether it was the last that --max-steps allows."""
        self.step += 1
        if self.due(self.step):
            self.log(epoch, self.step, loss)
        return self.step == self.args.max_steps

    def write(self, correct=0, total=0, **more):
        """Collective. On rank 0 one line of JSON, and the file."""
        peak = largest(peak_memory(), "cuda" if runs_on_gpu(self.args) else "cpu")
        if rank() != 0:
            return
        result = {
            "steps": max(self.step_ended_at),
            "global_batch": self.args.global_batch,
            "first_step_seconds": self.step_ended_at[1] - float(os.environ.get("BENCH_STARTED_AT", "nan")),
            "step_ended_at": self.step_ended_at,
            "evaluation_seconds": self.evaluation_seconds,
            "save_seconds": self.save_seconds,
            "loss": self.loss,
            "losses": self.losses,
            "test_correct": correct,
            "test_total": total,
            "peak_rss_bytes": peak,
            **more,
        }
        print(json.dumps(result))
        if self.args.json:
            with open(self.args.json, "w", encoding="utf-8") as file:
                json.dump(result, file)


class Networks:
    """Where a script stands by, it makes and compiles each network once; every training begins with the same weights."""

    def __init__(self):
        self._made = {}

    def get(self, kind, make, form):
        """The network that make() gave, and what form(network) gave, which trains it."""
        if kind not in self._made:
            network = make()
            weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
            self._made[kind] = network, form(network), weights
        network, trained, weights = self._made[kind]
        network.load_state_dict(weights)
        return network, trained


@contextlib.contextmanager
def stopwatch(seconds):
    """Appends to the list how long the block took."""
    began = time.perf_counter()
    yield
    seconds.append(time.perf_counter() - began)


def peak_memory():
    """The most memory that this process ever had resident; ru_maxrss would count torchrun's before the exec."""
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def largest(number, device):
    if not dist.is_initialized():
        return number
    numbers = torch.tensor([number], device=device)
    dist.all_reduce(numbers, op=dist.ReduceOp.MAX)
    return numbers.item()


def channels_last(network):
    """Filters of one channel, too, for which .to(memory_format=...) does nothing: both orders look the same to it."""
    for parameter in network.parameters():
        if parameter.dim() == 4:
            parameter.data = torch.empty_like(parameter, memory_format=torch.channels_last).copy_(parameter)
    return network

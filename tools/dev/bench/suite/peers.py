"""The sides in Python: the scripts in mnist_peers, started as their users start them."""

import json
import pathlib
import sys

from suite import process, sides

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent / "mnist_peers"
# What ddprun sets itself: freed memory stays in the process.
KEEPS_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
                "MALLOC_TOP_PAD_": str(64 << 20)}  # fmt: skip


def torchrun(workers, script):
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers), str(script)]


class Peer:
    """`data` holds MNIST/raw; `words` are added to the script's."""

    name = script = about = None
    precisions = ("fp32", "bf16")
    environment = {}

    def __init__(self, data, num_workers=0, words=(), name=None):
        self.data = data
        self.num_workers = num_workers
        self.words = words
        self.name = name or self.name

    def start(self, job):
        return torchrun(job.workers, SCRIPTS / self.script)

    def command(self, job, output):
        words = {"data": self.data, "json": output, "model": job.model, "device": job.device, "epochs": job.epochs,
                 "max-steps": job.steps, "global-batch": job.global_batch, "log-every": job.warm_up,
                 "threads": job.threads, "num-workers": self.num_workers}  # fmt: skip
        if job.precision in self.precisions:
            words["precision"] = job.precision
        return self.start(job) + [f"--{key}={value}" for key, value in words.items()] + list(self.words)

    def run(self, job, folder, timeout):
        output = pathlib.Path(folder) / "result.json"
        environment = {"OMP_NUM_THREADS": str(job.threads), **self.environment}
        finished = process.run(self.command(job, output), environment, folder, timeout)
        found = json.loads(output.read_text())
        return sides.Result(
            **sides.speeds(job, {int(step): at for step, at in found["step_ended_at"].items()}),
            first_step_seconds=found["first_step_seconds"],
            total_seconds=finished.seconds,
            peak_rss_bytes=found["peak_rss_bytes"],
            loss=found["loss"],
            test_correct=found["test_correct"],
            evaluation_seconds=tuple(found["evaluation_seconds"]),
            save_seconds=tuple(found["save_seconds"]),
        )


class Plain(Peer):
    name, script = "plain", "plain.py"
    about = "PyTorch DDP as the guides write it, under torchrun"
    precisions = ()  # fp32, whatever is asked of the others


class Expert(Peer):
    name, script = "expert", "expert.py"
    about = "PyTorch DDP tuned by hand, glibc set to keep memory, too"
    environment = KEEPS_MEMORY


class Lightning(Peer):
    name, script = "lightning", "with_lightning.py"
    about = "Lightning's Trainer as its guide writes it, without logger, checkpoints and progress bar"

    def start(self, job):
        return [sys.executable, str(SCRIPTS / self.script), f"--workers={job.workers}"]


class Accelerate(Peer):
    name, script = "accelerate", "with_accelerate.py"
    about = "Hugging Face Accelerate as its guide writes it, under torchrun"


PEERS = {kind.name: kind for kind in (Plain, Expert, Lightning, Accelerate)}

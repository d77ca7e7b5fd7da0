# SPDX-License-Identifier: MIT
import dataclasses
import os


@dataclasses.dataclass
class Slot:
    """Room for a trial. `gpus` for CUDA_VISIBLE_DEVICES; None: as in our own environment."""

    gpus: str | None = None
    active: object = None

    def environment(self):
        return dict(os.environ) if self.gpus is None else os.environ | {"CUDA_VISIBLE_DEVICES": self.gpus}


def make_slots(jobs, gpus):
    """Distributes GPUs evenly: several per trial if there are more of them than trials, otherwise several trials per
    GPU.
    """
    if not gpus:
        return [Slot() for _ in range(jobs or 1)]
    jobs = jobs or len(gpus)
    each = max(len(gpus) // jobs, 1)
    return [Slot(",".join(gpus[i * each % len(gpus) :][:each])) for i in range(jobs)]


def threads_override(experiment, jobs, overrides):
    """Returns the cores per worker, shared by all workers of all trials, unless the experiment (as ddprun composed it)
    sets them.
    """
    launch = experiment.get("launch") or {}
    if (
        any(word.lstrip("+~").startswith("launch.threads") for word in overrides)
        or launch.get("threads", "auto") != "auto"
    ):
        return []
    workers = launch.get("workers", "auto")
    trials = jobs * (workers if isinstance(workers, int) else 1)
    return [f"++launch.threads={max(len(os.sched_getaffinity(0)) // trials, 1)}"]

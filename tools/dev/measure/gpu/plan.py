"""The checks, those that are worth most first."""

import dataclasses

from measure.gpu.checks import bits, machine, models, ranks


@dataclasses.dataclass(frozen=True)
class Check:
    """A check. If `after` hung, it would hang too, and is skipped."""

    run: object  # called with a Context; returns a line of what it saw. AssertionError is a failure
    seconds: int  # then what it has started is killed, and it has failed
    after: str = ""
    alone: bool = False  # nothing may run beside it: it fills the GPU's memory

    @property
    def name(self):
        return self.run.__name__

    @property
    def help(self):
        return self.run.__doc__


NCCL = "nccl_losses"
CHECKS = {
    check.name: check
    for check in (
        Check(models.backend_loads, 60),
        Check(machine.gpu_tests, 200),
        Check(machine.cuda_rules, 60),
        Check(models.models("fp32"), 120),
        Check(models.models("bf16"), 120),
        Check(ranks.nccl_losses, 60),
        Check(ranks.nccl_graphs, 60, NCCL),
        Check(models.class_weights, 60),
        Check(ranks.nccl_sync_batchnorm, 60, NCCL),
        Check(bits.same_bits, 60),
        Check(models.models("fp32_exact"), 120),
        Check(models.models("fp16"), 120),
        Check(models.models("bf16_pure"), 120),
        Check(ranks.nccl_kill, 60, NCCL),
        Check(ranks.nccl_ragged_batch, 60, NCCL),
        Check(ranks.nccl_compression, 60, NCCL),
        Check(ranks.nccl_unused_parameters, 60, NCCL),
        Check(bits.everything_resumes, 60),
        Check(ranks.two_ranks_on_one_gpu, 60),
        Check(ranks.data_parallel, 60),
        Check(ranks.nccl_restart, 90, NCCL),
        Check(bits.data_parallel_resumes, 60),
        Check(ranks.nccl_mistakes, 60, NCCL),
        Check(models.little_memory, 90, alone=True),
        Check(models.out_of_memory, 120, alone=True),
        Check(machine.measures, 60),
        Check(models.gan_paints, 60),
        Check(models.digits_accuracy, 120),
    )
}

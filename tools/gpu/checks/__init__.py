"""The checks, in the order in which they run. Each returns a line of what it saw; AssertionError is a failure."""

from gpu.checks import bits, machine, numbers, ranks

CHECKS = [
    numbers.backend_loads,
    numbers.digits_accuracy,
    numbers.mlp_losses,
    numbers.convnet_losses,
    numbers.image_networks,
    numbers.transformer_losses,
    numbers.gan_paints,
    numbers.mixed_precision,
    bits.resident_images,
    machine.layouts,
    machine.gpu_tests,
    ranks.more_workers_than_gpus,
    ranks.two_ranks_on_one_gpu,
    ranks.several_gpus,
    ranks.data_parallel,
    bits.cuda_graphs,
    bits.same_bits,
    bits.resume_after_kill,
    bits.everything_resumes,
    bits.data_parallel_resumes,
    machine.out_of_memory,
    machine.memory,
    machine.measures,
]

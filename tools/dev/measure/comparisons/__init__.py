"""The tables that compare ddprun with Python, and with itself, on any machine."""

from measure.comparisons import exported, failures, inside, loader, python, ranks, recompute, same_bits, shared_optimizer, sweep

TABLES = [
    *python.TABLES,
    *exported.TABLES,
    *loader.TABLES,
    *inside.TABLES,
    *same_bits.TABLES,
    *shared_optimizer.TABLES,
    *recompute.TABLES,
    *failures.TABLES,
    *ranks.TABLES,
    *sweep.TABLES,
]

"""The tables that compare ddprun with Python, and with itself, on any machine."""

from measure.comparisons import exported, failures, inside, loader, python, ranks, sweep

TABLES = [
    *python.TABLES,
    *exported.TABLES,
    *loader.TABLES,
    *inside.TABLES,
    *failures.TABLES,
    *ranks.TABLES,
    *sweep.TABLES,
]

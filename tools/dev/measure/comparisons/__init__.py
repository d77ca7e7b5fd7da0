"""The tables that compare ddprun with Python, and with itself."""

from measure.comparisons import loader, same_bits, scaling, training, wide_resnet

TABLES = [*training.TABLES, *loader.TABLES, *same_bits.TABLES, *scaling.TABLES, *wide_resnet.TABLES]

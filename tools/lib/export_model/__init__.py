# SPDX-License-Identifier: MIT
"""Exports modules for ddprun, what tools/export_model runs: source (where the module comes from), inputs (what it is tried with), programs
(torch.export, for training and for evaluation), check (the exported programs against the module), loss (all that for a function of
prediction and target), keras_model (Keras' models as modules), hidden (what no program does), archive (the file)."""

# SPDX-License-Identifier: MIT
"""Searches hyperparameters with Optuna: what tools/sweep runs. See `ddprun docs sweeps`."""

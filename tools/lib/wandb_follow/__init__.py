# SPDX-License-Identifier: MIT
"""Sends runs to Weights & Biases: what tools/wandb_follow runs."""

# SPDX-License-Identifier: MIT
"""Converts weights of PyTorch for ddprun, what tools/convert_weights runs."""

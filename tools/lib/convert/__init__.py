# SPDX-License-Identifier: MIT
"""Converts data sets of the Python world to what ddprun reads: what tools/convert runs."""

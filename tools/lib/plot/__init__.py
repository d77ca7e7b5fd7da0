# SPDX-License-Identifier: MIT
"""Figures of runs for papers: what tools/plot draws."""

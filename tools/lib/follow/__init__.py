# SPDX-License-Identifier: MIT
"""Sends runs to experiment trackers: what tools/follow runs."""

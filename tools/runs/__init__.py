# SPDX-License-Identifier: MIT
"""Reads the folder of a run, finished or under way (its files: docs/logging.md). Needs nothing but Python itself."""

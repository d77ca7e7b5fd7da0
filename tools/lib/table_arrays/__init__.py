# SPDX-License-Identifier: MIT
"""Makes arrays of a table, for `ddprun init wine.csv`: what runner/cli/table_arrays.cpp runs."""

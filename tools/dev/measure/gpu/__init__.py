"""Checks ddprun on a machine with GPUs: what tools/gpu_check runs. Needs nothing but Python itself."""

"""The checks: functions that take a gpu_check.checks.context.Context and return a line of what they saw. gpu_check.plan has their order."""

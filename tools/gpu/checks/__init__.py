"""The checks: functions that take a gpu.checks.context.Context and return a line of what they saw. gpu.plan has their order."""

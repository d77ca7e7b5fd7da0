"""The checks: functions that take a measure.gpu.checks.context.Context and return a line of what they saw. measure.gpu.plan has their order."""

"""Table: ddprun beside plain Python DDP, the same training: speed, start, memory."""

from suite import comparison
from suite.comparison import FROM_START, MEMORY, SPEED, START, WHOLE

TITLE = "Beside plain Python DDP"


def measure(options):
    return comparison.compare(options, comparison.job_of(options), ["plain"], [SPEED, FROM_START, START, MEMORY, WHOLE])

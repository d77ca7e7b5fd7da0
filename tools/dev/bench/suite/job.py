"""Table: the whole command beside each peer in Python: to its first step, and to its end after one epoch and after five."""

import dataclasses
import math

from suite import comparison, sides
from suite.comparison import START, WHOLE

TITLE = "A whole job beside Python"
TARGETS = {1: {"plain": 2.5, "expert": 1.5}}  # by epochs


def measure(options):
    texts, figures = [], {}
    for model in options.model:
        for epochs in options.epochs:
            steps = epochs * math.ceil(sides.IMAGES / options.global_batch)
            job = comparison.job_of(options, model=model, steps=steps)
            whole = dataclasses.replace(WHOLE, targets=TARGETS.get(epochs, {}))
            text, figures[f"{model}_{epochs}"] = comparison.compare(options, job, options.peer, [START, whole])
            texts.append(f"### {model}, epochs: {epochs}\n\n{text}")
    return "\n\n".join(texts), figures

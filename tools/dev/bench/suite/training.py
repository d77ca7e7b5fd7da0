"""Table: images/s and memory of the same training, beside each peer in Python, by network and precision."""

import dataclasses

from suite import comparison, peers
from suite.comparison import FROM_START, MEMORY, SPEED

TITLE = "Training beside Python"
TARGETS = {"fp32": SPEED.targets, "bf16": {"plain": 2.2}}


def measure(options):
    texts, figures = [], {}
    for model in options.model:
        for precision in options.precision:
            speed = dataclasses.replace(SPEED, targets=TARGETS[precision])
            job = comparison.job_of(options, model=model, precision=precision)
            text, figures[f"{model}_{precision}"] = comparison.compare(options, job, options.peer, [speed, FROM_START, MEMORY])
            texts.append(f"### {model}, {precision}\n\n{text}")
    notes = [f"- {name}: {peers.PEERS[name].about}" for name in options.peer]
    if "bf16" in options.precision and "plain" in options.peer:
        notes.append("- plain trains in fp32 always: bf16 would be a change of its script")
    return "\n\n".join(texts) + "\n\n" + "\n".join(notes), figures

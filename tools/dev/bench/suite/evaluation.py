"""Table: images/s of evaluation alone, beside each peer in Python."""

from suite import comparison
from suite.comparison import Figure

TITLE = "Evaluation beside Python"
TIMES = 5
STEPS_BETWEEN = 4
SPEED = Figure("evaluated_per_second", "evaluation, images/s", more_is_better=True)


def measure(options):
    texts, figures = [], {}
    batch = options.global_batch // options.workers
    ours = [f"trainer.eval_every={STEPS_BETWEEN}st", f"trainer.eval_batch={batch}"]
    for model in options.model:
        job = comparison.job_of(options, model=model, steps=STEPS_BETWEEN * TIMES, warm_up=STEPS_BETWEEN)
        text, figures[model] = comparison.compare(options, job, options.peer, [SPEED], ours, [f"--evaluations={TIMES}"])
        texts.append(f"### {model}\n\n{text}")
    note = (
        f"Each run evaluates the 10,000 test images {TIMES} times, {batch} in a batch, and counts with the median of these: ddprun every "
        f"{STEPS_BETWEEN} steps (from the step's row to that of the evaluation), the scripts one after the other in the end."
    )
    return "\n\n".join([*texts, note]), figures

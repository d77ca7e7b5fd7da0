"""What the promise of the same bits costs: shards, and the records by which steps can be made again."""

from measure.comparisons.training import job_of, ours
from measure.table import MEMORY, SPEED, Case, Ratio, Table

BATCHES, WORKERS, MANY = (64, 256), (1, 2), 8
AS_MANY_AS_WORKERS = 0.97  # of the speed without shards, at least


def shards(bench):
    for model in bench.model:
        for batch in BATCHES:
            for workers in WORKERS:
                job = job_of(bench, model, batch=batch, workers=workers, threads=1)
                numbers = {"without": 0, "as many as workers": workers, f"{MANY} shards": MANY}
                sides = [ours(bench, job, name, [f"trainer.shards={number}"]) for name, number in numbers.items()]
                without, as_many, many = numbers
                ratios = (Ratio(as_many, without, at_least=AS_MANY_AS_WORKERS), Ratio(many, without),
                          Ratio(as_many, without, MEMORY), Ratio(many, without, MEMORY))  # fmt: skip
                yield Case(sides, (SPEED, MEMORY), ratios, f"{model}, batch {batch}, {workers} worker{'s' * (workers > 1)}")


def digests(bench):
    """Rows of metrics come with a digest of weights, optimizer state and averages, compared between the workers."""
    for model in bench.model:
        words = {
            f"a row of {bench.warm_up} steps": [],
            "a row of each step": ["trainer.log_every=1"],
            "each operator recorded": [f"+record.steps=1..{bench.steps}"],
        }
        job = job_of(bench, model, workers=2, threads=1)
        sides = [ours(bench, job, name, own) for name, own in words.items()]
        yield Case(sides, (SPEED,), tuple(Ratio(side.name, sides[0].name) for side in sides[1:]), model)


def cases(bench):
    yield from shards(bench)
    yield from digests(bench)


def in_words(bench):
    return (
        f"MNIST, {bench.steps} steps on {bench.device}, one thread in each worker: `trainer.shards` beside none, as many as workers "
        f"and eight; then, on 2 workers with a global batch of {bench.global_batch}, a row of metrics with its digest and the "
        "comparison of the workers, and a record of every operator, as `ddprun replay` makes it of one step."
    )


TABLES = [Table("same_bits", "what the same bits cost: trainer.shards, digests at rows of metrics, records of operators", cases,
                words=in_words)]  # fmt: skip

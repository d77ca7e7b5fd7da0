"""What trainer.shard_optimizer costs and saves: two workers that share the optimizer of a small GPT beside two that do not,
and beside ZeroRedundancyOptimizer and FSDP2 of PyTorch."""

import json

from measure.comparisons.exported import VOCABULARY, Network, laid_out
from measure.comparisons.python import MEMORY, ours
from measure.rounds import Side
from measure.table import Case, Figure, Ratio, Table
from measure.trainings import KEEPS_MEMORY, PEERS, Job, torchrun, train_script

STEP = Figure("step_ms", "a step, ms", more_is_better=False)
OPTIMIZER = Figure("optimizer_ms", "of it norms and optimizer", more_is_better=False)
WAIT = Figure("wait_ms", "waiting for the other", more_is_better=False)
FASTER_MUON = 1.5  # times as fast a step of the optimizer, at least
# Layers and width: 85 and 7 million numbers. Muon's matrices are multiplied, which takes far longer than what else there is.
SIZES = {"adamw": (12, 768), "muon": (4, 384)}
BATCH, CONTEXT = 4, 64


def cases(bench):
    for optimizer, (layers, width) in SIZES.items():
        steps = max(8, bench.options.steps // 10)
        words = ("~early_stopping", "~schedule", f"optimizer={optimizer}", f"model.layers={layers}", f"model.width={width}",
                 f"model.heads={width // 64}", f"dataset.context={CONTEXT}", "trainer.sanity_batches=0",
                 "trainer.limit_val_batches=1", "trainer.limit_test_batches=1")  # fmt: skip
        job = Job(BATCH, steps, steps // 4, "experiments/text.yaml", words, workers=2, threads=1)
        phases = lambda run: phases_of(run, steps)  # noqa: B023, E731
        sides = [
            ours(bench, job, name, [f"trainer.shard_optimizer={shared}"], look=phases)
            for name, shared in (("each has all", "false"), ("shared", "true"))
        ]
        alone, shared = (side.name for side in sides)
        faster = FASTER_MUON if optimizer == "muon" else None
        ratios = (Ratio(shared, alone, STEP), Ratio(shared, alone, OPTIMIZER, at_least=faster), Ratio(shared, alone, MEMORY))
        yield Case(sides, (STEP, OPTIMIZER, WAIT, MEMORY), ratios, f"{optimizer}, {layers} layers of {width}")


def phases_of(run_dir, steps):
    """Of a step; the one that warms up counts, too."""
    import ddprun

    summary = ddprun.run(run_dir).summary
    return {f"{phase}_ms": 1e3 * summary[f"{phase}_seconds"] / steps for phase in ("optimizer", "wait")}


def in_words(bench):
    return (
        f"The byte-level transformer on text, {BATCH} windows of {CONTEXT} a step, 2 workers of one thread that share two "
        "cores and talk over loopback: `trainer.shard_optimizer` beside none."
    )


# --- beside Python ---------------------------------------------------------------------------------------------------

GPT = {"n_layer": 12, "n_head": 12, "n_embd": 768, "vocab_size": VOCABULARY}  # 92 million numbers
PYTHON = {"DDP": "ddp", "ZeroRedundancyOptimizer": "zero", "FSDP2": "fsdp2"}
LOSS = Figure("loss", "last loss", 4)
OPTIMIZER_OF = {"ddprun": "false", "ddprun, shared": "true"}


def beside_python(bench):
    steps = max(12, bench.options.steps // 10)
    network = Network("gpt2", "transformers:GPT2LMHeadModel", f"{CONTEXT}:int64:{VOCABULARY}", BATCH, steps, GPT)
    with laid_out(bench, network) as folder:
        job = Job(BATCH, steps, steps // 4, str(folder / "net.yaml"), ("optimizer={plugin: adamw, lr: 0.001}",), ("--lr=0.001",),
                  workers=2, threads=1)  # fmt: skip
        sides = [ours(bench, job, name, [f"trainer.shard_optimizer={shared}"]) for name, shared in OPTIMIZER_OF.items()]
        sides += [Side(name, of_python(job, kind, folder)) for name, kind in PYTHON.items()]
        pairs = [("ddprun, shared", "ddprun"), *(("ddprun, shared", name) for name in PYTHON)]
        ratios = tuple(Ratio(first, second, figure) for figure in (STEP, MEMORY) for first, second in pairs)
        yield Case(sides, (STEP, MEMORY, LOSS), ratios, "GPT-2, 12 layers of 768, AdamW")


def of_python(job, kind, folder):
    command = [*torchrun(job.workers, PEERS / "sharded_peer.py"), f"--shard={kind}", f"--settings={json.dumps(GPT)}", f"--data={folder}",
               f"--state={folder / 'net.pth'}"]  # fmt: skip
    return lambda seconds: train_script(command, job, seconds, folder, KEEPS_MEMORY)


def beside_python_in_words(bench):
    return (
        f"GPT-2 of transformers, exported for ddprun, {BATCH} windows of {CONTEXT} a step, 2 workers of one thread on Gloo: "
        "`trainer.shard_optimizer` beside none, and beside PyTorch's own three ways."
    )


TABLES = [
    Table("shard_optimizer", "two workers that share the optimizer beside two that do not", cases, words=in_words),
    Table("sharded", "two workers that share the optimizer beside ZeroRedundancyOptimizer and FSDP2 in Python", beside_python,
          words=beside_python_in_words),
]  # fmt: skip

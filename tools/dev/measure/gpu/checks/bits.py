"""Checks of bits: fast paths, repetitions and resumed runs end with the very same weights."""

from measure.gpu.checks.context import SAME, SMALL, killed_and_resumed, long_run, same, same_bits_after_a_kill


def resident_images(context):
    """images that stay on the GPU: the losses of 50 steps are, to the bit, those with batches from the host and from get()"""
    words = ["model=convnet_bn", *SAME, *SMALL, "trainer.max_steps=50"]
    runs = context.train_at_once({f"resident_{where}": [*words, f"dataset.resident={where}"] for where in ("auto", "host", "off")})
    for run in runs.values():
        same(run, runs["resident_off"])
    return "three times the same bits"


def cuda_graphs(context):
    """steps replayed from CUDA graphs: the losses and the weights have the bits of ordinary steps, with a schedule, clipping and EMA"""
    context.require_gpu()
    cases = {"mlp": ["model=mlp"], "convnet": ["model=convnet"], "norms": ["model=convnet_bn", "trainer.precision=bf16"],
             "adam": ["model=mlp", "optimizer=adam", "trainer.precision=fp16", "trainer.clip_norm=1", "trainer.ema_decay=0.99"]}
    common = [*SAME, *SMALL, "trainer.max_epochs=9", "trainer.max_steps=150", "trainer.memory_format=channels_first",
              "schedule={name: cosine, warmup: 20st}"]
    runs = context.train_at_once({f"{name}_{mode}": [*words, *common, f"trainer.cuda_graph={mode}"]
                                  for name, words in cases.items() for mode in ("off", "on")})
    for name in cases:
        replayed, ordinary = runs[f"{name}_on"], runs[f"{name}_off"]
        assert replayed.summary()["replayed_steps"] > 0, f"{name}: no step was replayed: {replayed.summary()['cuda_graph']}"
        same(replayed, ordinary)
    return ", ".join(f"{name} {runs[f'{name}_on'].summary()['replayed_steps']} steps replayed" for name in cases)


def same_bits(context):
    """the same run twice ends with the same bits, and so does one whose worker is killed and that is resumed"""
    words = long_run(context)
    made = context.at_once({"again": lambda: context.train("again", words), "once": lambda: context.train("once", words),
                            "killed": lambda: killed_and_resumed(context, "killed", words)})
    same(made["again"], made["once"])
    same(made["killed"], made["once"])
    return f"twice, and killed and resumed: {len(made['once'].weights())} bytes of weights"


def everything_resumes(context):
    """fp16 with accumulation, clipping, EMA and a schedule: killed and resumed, the same bits"""
    precision = ["trainer.precision=fp16"] if context.gpus else []
    return same_bits_after_a_kill(context, "everything", [*precision, "trainer.micro_batch=24", "trainer.clip_norm=1",
                                  "trainer.ema_decay=0.99", "schedule={name: cosine, warmup: 20st}"])


def data_parallel_resumes(context):
    """strategy dp with dropout on all GPUs: killed and resumed, the same bits"""
    context.require_gpu()
    return same_bits_after_a_kill(context, "dp_long", ["trainer.strategy=dp"])

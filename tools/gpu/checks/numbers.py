"""Checks of numbers: a GPU trains as the CPU does, in each precision."""

import re

from gpu.checks.context import EXACT_FP32, SAME, SMALL, compare_losses
from gpu.runs import Run


def backend_loads(context):
    """the GPU backend loads, and a few steps run on the GPU"""
    context.require_gpu()
    context.ddprun.train("backend", "digits", ["model=mlp", "trainer=smoke", *SMALL])
    found = re.search(r"\d+ workers? on (.*)", context.ddprun.output("backend"))
    assert found, "the console does not say where it trains"
    assert found.group(1).strip() != "cpu", "it trained on the CPU"
    return found.group(1).strip()


def digits_accuracy(context):
    """digits.yaml reaches 97 % of the test images"""
    run = context.ddprun.train("digits", "digits", [])
    summary = run.summary()
    share = summary["test_correct"] / summary["test_total"]
    text = f"{100 * share:.2f} % in {summary['total_seconds']:.1f} s"
    assert share >= 0.97, text
    return text


def mlp_losses(context):
    """mlp: the losses of 50 steps are the CPU's"""
    return compare_losses(context, "mlp", ["model=mlp"])


def convnet_losses(context):
    """convnet without dropout: the losses of 50 steps are the CPU's"""
    return compare_losses(context, "convnet", ["model=convnet", "model.dropout=0"])


def transformer_losses(context):
    """transformer on a text: the losses of 20 steps are the CPU's, and near them in fp16 and bf16"""
    text = ["dataset.size=40000"]
    words = [compare_losses(context, "transformer", [], steps=20, tolerance=1e-2, experiment="text", data=text)]
    exact = Run(context.ddprun.folder / "transformer_cpu").losses()
    for precision in ("fp16", "bf16"):
        run = context.ddprun.train(f"transformer_{precision}", "text",
                                   [*SAME, *text, "trainer.max_steps=20", "optimizer.lr=0.01", f"trainer.precision={precision}"])
        worst = max(abs(run.losses()[step] - exact[step]) / abs(exact[step]) for step in exact)
        assert worst < 0.25, f"{precision} differs by {worst:.1e}"
        words.append(f"{precision} {worst:.1e}")
    return "; ".join(words)


def gan_paints(context):
    """gan: 100 steps in float32 and bf16 keep both players' losses finite, and each evaluation paints"""
    context.require_gpu()
    words = []
    for precision in ("fp32", "bf16"):
        name = f"gan_{precision}"
        run = context.ddprun.train(name, "gan", ["trainer=reproducible", "trainer.log_every=1", *SMALL, "trainer.max_steps=100",
                                                 f"trainer.precision={precision}"])
        rows = run.rows()
        assert len(rows) == 100 and not any("nonfinite" in row for row in rows), f"{precision}: {len(rows)} rows, or one not finite"
        painted = list((run.folder / "images/val").glob("*_step_*.png"))
        assert painted, f"{precision}: nothing was painted"
        words.append(f"{precision}: {rows[-1]['loss_generator']:.2f} and {rows[-1]['loss_discriminator']:.2f}, {len(painted)} paintings")
    return "; ".join(words)


def image_networks(context):
    """keras_convnet and wide_resnet, BatchNorm included: the losses of 20 steps are the CPU's"""
    lines = []
    for model in (["model=keras_convnet", "model.dropout=0"], ["model=wide_resnet", "model.depth=10", "model.widen_factor=1"]):
        lines.append(f"{model[0][6:]}: " + compare_losses(context, model[0][6:], model, steps=20, tolerance=2e-2))
    return "; ".join(lines)


def mixed_precision(context):
    """bf16, fp16 and tf32 stay near float32 over 50 steps, and fp16 tells its scale; channels_last changes no meaning"""
    context.require_gpu()
    overrides = ["model=convnet_bn", *SAME, *SMALL, "trainer.max_steps=50", "optimizer.lr=0.01"]
    exact = context.ddprun.train("fp32", "digits", overrides, EXACT_FP32).losses()
    words = []
    for name, changes in {"tf32": [], "bf16": [], "fp16": [], "fp16_last": ["trainer.layout=channels_last"], "bf16_pure": []}.items():
        run = context.ddprun.train(name, "digits", [*overrides, f"trainer.precision={name.removesuffix('_last')}", *changes])
        worst = max(abs(run.losses()[step] - exact[step]) / abs(exact[step]) for step in exact)
        words.append(f"{name} {worst:.1e}")
        assert worst < 0.25, f"{name} differs by {worst:.1e}"
    return "largest relative difference from fp32: " + ", ".join(words)

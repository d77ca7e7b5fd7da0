# SPDX-License-Identifier: MIT
"""The networks of torchvision, timm, transformers and more packages, each trained for 20 steps in Python and by ddprun:
python exported_zoo.py [NAME...] prints a table of which have equal bits; NAME may be packages: for all of exported_packages.py. Needs
these packages, and DDPRUN, the program. docs/models.md has what it printed."""

import argparse
import collections
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch

import exported_networks
import exported_packages
from eager import OwnTraining, Training, losses_of, unequal, weights_of  # first: it makes the next two known
from ddprun import UserError
from export_model.__main__ import write_network
from export_model.outputs import give_one_tensor
from export_model.source import make_module, parse_settings

CLASSES = "num_classes=10"


def images(names, size=64, *settings):
    return {name: ([f"3x{size}x{size}"], [CLASSES, *settings]) for name in names.split()}


def symbols(name, *settings, mask=False):
    inputs = ["input_ids=16:int64:50"] + (["attention_mask=16:int64:2"] if mask else [])
    return {f"transformers:{name}": (inputs, ["vocab_size=50", *settings])}


def of(library, networks):
    return {f"{library}:{name}": rest for name, rest in networks.items()}


SMALL = ["num_hidden_layers=2", "hidden_size=32", "num_attention_heads=2", "intermediate_size=64"]
TOKENS = ["pad_token_id=0", "bos_token_id=1", "eos_token_id=2"]

TORCHVISION = of("torchvision", (
    images("alexnet vgg11_bn vgg16 resnet18 resnet34 resnet50 resnext50_32x4d wide_resnet50_2 densenet121 squeezenet1_1 "
           "shufflenet_v2_x0_5 shufflenet_v2_x1_0 mnasnet0_5 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large efficientnet_b0 efficientnet_b1 "
           "efficientnet_v2_s regnet_x_400mf regnet_y_400mf regnet_y_800mf convnext_tiny swin_t swin_v2_t")
    | images("vit_b_16 vit_b_32", 64, "image_size=64")
    | images("googlenet", 64, "aux_logits=False", "init_weights=True")
    | images("inception_v3", 128, "aux_logits=False", "init_weights=True")
    | images("maxvit_t", 224)))  # its sides are fixed

SEGMENTATION = {f"torchvision:{name}": (["3x64x64"], [CLASSES, "weights_backbone=None"])
                for name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")}

TIMM = of("timm", (
    images("convnext_atto convnextv2_atto resnet26d resnetv2_50 resnest14d seresnet18 resnext26ts mobilenetv3_small_050 mobilenetv4_conv_small "
           "mobilevit_xxs mobilevitv2_050 ghostnet_050 edgenext_xx_small tf_efficientnet_lite0 efficientnet_b0 mixnet_s fbnetc_100 semnasnet_075 spnasnet_100 "
           "hrnet_w18_small dla34 regnetx_002 regnety_002 repvgg_a0 rexnet_100 nf_resnet26 eca_nfnet_l0 poolformer_s12 efficientvit_b0 cspresnet50 "
           "vovnet39a selecsls42b tinynet_e lcnet_050 hardcorenas_a repghostnet_050 fastvit_t8 inception_next_atto")
    | images("vit_tiny_patch16_224 deit_tiny_patch16_224 mixer_s32_224 xcit_nano_12_p16_224 swin_tiny_patch4_window7_224 "
             "beit_base_patch16_224", 64, "img_size=64")
    | images("tiny_vit_5m_224 levit_128s pit_ti_224 crossvit_tiny_240 coat_tiny cait_xxs24_224 sequencer2d_s", 224)))
TIMM["timm:crossvit_tiny_240"] = (["3x240x240"], [CLASSES])

TRANSFORMERS = (
    symbols("GPT2LMHeadModel", "n_layer=2", "n_embd=32", "n_head=2", "n_positions=32", *TOKENS[1:])
    | symbols("BertForSequenceClassification", *SMALL, "num_labels=4", mask=True)
    | symbols("BertForMaskedLM", *SMALL)
    | symbols("RobertaForSequenceClassification", *SMALL, "num_labels=4", "max_position_embeddings=32", *TOKENS, mask=True)
    | symbols("DistilBertForSequenceClassification", "n_layers=2", "dim=32", "n_heads=2", "hidden_dim=64", "num_labels=4", mask=True)
    | symbols("AlbertForMaskedLM", *SMALL, "embedding_size=16")
    | symbols("ElectraForSequenceClassification", *SMALL, "embedding_size=16", "num_labels=4", mask=True)
    | symbols("MPNetForSequenceClassification", *SMALL, "num_labels=4", "max_position_embeddings=32", *TOKENS)
    | symbols("LlamaForCausalLM", *SMALL, "num_key_value_heads=2", *TOKENS)
    | symbols("MistralForCausalLM", *SMALL, "num_key_value_heads=2", *TOKENS)
    | symbols("Qwen2ForCausalLM", *SMALL, "num_key_value_heads=2", *TOKENS)
    | symbols("GPTNeoXForCausalLM", *SMALL, *TOKENS)
    | symbols("OPTForCausalLM", "num_hidden_layers=2", "hidden_size=32", "word_embed_proj_dim=32", "num_attention_heads=2", "ffn_dim=64", *TOKENS)
    | symbols("BloomForCausalLM", "n_layer=2", "hidden_size=32", "n_head=2", *TOKENS)
    | symbols("PhiForCausalLM", *SMALL, *TOKENS)
    | symbols("GemmaForCausalLM", *SMALL, "num_key_value_heads=2", "head_dim=16", *TOKENS)
    | symbols("MambaForCausalLM", "num_hidden_layers=2", "hidden_size=32", "state_size=4", *TOKENS)
    | symbols("MixtralForCausalLM", *SMALL, "num_key_value_heads=2", "num_local_experts=4", *TOKENS)
    | {"transformers:ViTForImageClassification": (["3x32x32"], [*SMALL, "image_size=32", "patch_size=8", "num_labels=10"])}
    | {"transformers:ConvNextForImageClassification": (["3x64x64"], ["num_labels=10", "depths=[1,1,1,1]", "hidden_sizes=[8,16,24,32]"])})

WORDS = "labels=16:int64:50"
LOSSES = {  # networks that compute it: (inputs, settings, the input that is the target, its classes)
    "GPT2LMHeadModel": (["16:int64:50", WORDS], ["vocab_size=50", "n_layer=2", "n_embd=32", "n_head=2"], "labels", 50),
    "BertForMaskedLM": (["16:int64:50", WORDS], ["vocab_size=50", *SMALL], "labels", 50),
    "BertForTokenClassification": (["16:int64:50", "labels=16:int64:5"], ["vocab_size=50", *SMALL, "num_labels=5"], "labels", 5),
    "BertForSequenceClassification": (["16:int64:50", "labels=:int64:5"], ["vocab_size=50", *SMALL, "num_labels=5"], "labels", 5),
    "BertForQuestionAnswering": (
        ["16:int64:50", "start_positions=:int64:16", "end_positions=:int64:16"], ["vocab_size=50", *SMALL], "start_positions", 16),
    "T5ForConditionalGeneration": (
        ["16:int64:50", "labels=10:int64:50"],
        ["vocab_size=50", "d_model=32", "d_kv=16", "d_ff=64", "num_layers=2", "num_heads=2", "decoder_start_token_id=0"], "labels", 50),
    "ViTForImageClassification": (["3x32x32", "labels=:int64:5"], [*SMALL, "image_size=32", "patch_size=8", "num_labels=5"], "labels", 5),
    "SegformerForSemanticSegmentation": (
        ["3x64x64", "labels=64x64:int64:5"],
        ["num_labels=5", "depths=[1,1,1,1]", "hidden_sizes=[8,16,40,64]", "decoder_hidden_size=16"], "labels", 5),
}
FIRST = {"ViTForImageClassification": "pixel_values", "SegformerForSemanticSegmentation": "pixel_values"}
LOSSES = {f"loss:{name}": rest for name, rest in LOSSES.items()}

ODD = {f"odd:{name}": (inputs, []) for name, (_, inputs) in exported_networks.NETWORKS.items()}
PACKAGES = {f"packages:{name}": (inputs, []) for name, (_, inputs) in exported_packages.PACKAGES.items()}
CONTRASTS = {f"packages:{name}": rest for name, rest in exported_packages.CONTRASTS.items()}
ZOO = TORCHVISION | SEGMENTATION | TIMM | TRANSFORMERS | LOSSES | ODD | PACKAGES | CONTRASTS


def make(name, settings):
    torch.manual_seed(0)
    if name.startswith("odd:"):
        return exported_networks.NETWORKS[name.removeprefix("odd:")][0]()
    if name in PACKAGES:
        module = exported_packages.PACKAGES[name.removeprefix("packages:")][0]()
    else:
        module = make_module(name, parse_settings(settings))
    give_one_tensor(module, None)
    return module


def with_loss(name, folder):
    """Exports a network that computes its loss."""
    inputs, settings, target, classes = LOSSES[name]
    name = name.removeprefix("loss:")
    made = [make_module(f"transformers:{name}", parse_settings(settings)) for _ in range(2) if torch.manual_seed(0)]
    write_with_loss(made[0], inputs, folder, target=target)
    return OwnTraining(made[1], inputs, FIRST.get(name, "input_ids"), folder, target, classes)


def with_contrast(name, folder):
    """Exports a network with a loss of what it gives."""
    make_one, inputs, loss = CONTRASTS[name]
    made = [make_one() for _ in range(2) if torch.manual_seed(0)]
    write_with_loss(made[0], inputs, folder, loss=f"{exported_packages.__file__}:{loss}", prediction="image_features")
    return OwnTraining(made[1], inputs, None, folder, loss=lambda outputs, _: getattr(exported_packages, loss)(outputs))


def write_with_loss(module, inputs, folder, **options):
    options = {"source": type(module).__name__, "loss": True, "target": None, "output": None, "prediction": None, "weights": None} | options
    write_network(module, argparse.Namespace(inputs=inputs, out=folder / "net.pt2", **options))


def trained_twice(name, folder):
    """Exports it. Returns what trains it in Python, and how many operators it has, where they are counted."""
    if name in LOSSES or name in CONTRASTS:
        return (with_loss if name in LOSSES else with_contrast)(name, folder), 0
    inputs, settings = ZOO[name]
    training = Training(make(name, settings), inputs, folder)
    training.export()
    return training, training.nodes


def compared(name, folder):
    """(what came of it, nodes, seconds of: the export, ddprun, Python)"""
    times = [time.perf_counter()]
    training, nodes = trained_twice(name, folder)
    training.experiment()
    times.append(time.perf_counter())
    done = subprocess.run([os.environ["DDPRUN"], "net.yaml", "run.dir=run", "trainer.find_unused_parameters=true"], cwd=folder, capture_output=True, text=True)
    times.append(time.perf_counter())
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["?"])[0], nodes, []
    losses = training.in_python()
    times.append(time.perf_counter())
    wrong = unequal(training.module, weights_of(folder / "run"))
    found = [float("nan") if loss is None else loss for loss in losses_of(folder / "run")]
    same = all(a == b or (a != a and b != b) for a, b in zip(found, losses, strict=True))
    state = "equal" if same and not wrong else f"differs: {len(wrong)} tensors ({', '.join(wrong[:2])}), losses {'equal' if same else 'differ'}"
    return state, nodes, [b - a for a, b in zip(times, times[1:])]


def row(name, pipe):
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        try:
            state, nodes, seconds = compared(name, pathlib.Path(folder))
        except UserError as error:
            state, nodes, seconds = f"not exported: {error}", 0, []
        except Exception as error:
            state, nodes, seconds = f"{type(error).__name__}: {str(error).splitlines()[0]}", 0, []
    pipe.send((state, nodes, " | ".join(f"{one:.1f}" for one in seconds) or " | | "))


def main(names):
    counts = collections.Counter()
    print("| network | operators | export, s | ddprun, s | Python, s | bits |\n|---|---|---|---|---|---|")
    for name in [one for one in ZOO if not names or one in names or f"{one.partition(':')[0]}:" in names]:
        mine, theirs = multiprocessing.Pipe()
        process = multiprocessing.Process(target=row, args=(name, theirs))
        process.start()
        theirs.close()
        try:
            state, nodes, seconds = mine.recv()
        except EOFError:
            state, nodes, seconds = "the process died", 0, " | | "
        process.join()
        counts[state == "equal"] += 1
        print(f"| {name} | {nodes} | {seconds} | {state[:300]} |", flush=True)
    print(f"\n{counts[True]} of {counts.total()} have equal bits.")


if __name__ == "__main__":
    main(sys.argv[1:])

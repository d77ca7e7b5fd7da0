# SPDX-License-Identifier: MIT
"""The networks of torchvision, timm, transformers and more packages, each trained for 20 steps in Python and by ddprun:
python exported_zoo.py [NAME...] prints a table of which have equal bits; NAME may be timm: for all of a package. Needs these packages,
and DDPRUN, the program. docs/models.md has what it printed."""

import argparse
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile

import torch

import exported_networks
from eager import OwnTraining, Training, losses_of, unequal, weights_of  # first: it makes the next known
from export_model.__main__ import write_network
from export_model.outputs import give_one_tensor
from export_model.source import make_module, parse_settings


def of(library, names, inputs, *settings):
    return {f"{library}:{name}": (inputs.split(), settings) for name in names.split()}


def made_of(path, **settings):
    """What makes PACKAGE.NAME with these arguments."""
    package, _, name = path.rpartition(".")
    return lambda: getattr(importlib.import_module(package), name)(**settings)


CLASSES = "num_classes=10"
TORCHVISION = (
    of("torchvision", "alexnet vgg11_bn vgg16 resnet18 resnet34 resnet50 resnext50_32x4d wide_resnet50_2 densenet121 squeezenet1_1 "
       "shufflenet_v2_x0_5 shufflenet_v2_x1_0 mnasnet0_5 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large efficientnet_b0 efficientnet_b1 "
       "efficientnet_v2_s regnet_x_400mf regnet_y_400mf regnet_y_800mf convnext_tiny swin_t swin_v2_t", "3x64x64", CLASSES)
    | of("torchvision", "vit_b_16 vit_b_32", "3x64x64", CLASSES, "image_size=64")
    | of("torchvision", "googlenet", "3x64x64", CLASSES, "aux_logits=False", "init_weights=True")
    | of("torchvision", "inception_v3", "3x128x128", CLASSES, "aux_logits=False", "init_weights=True")
    | of("torchvision", "maxvit_t", "3x224x224", CLASSES)  # its sides are fixed
    | of("torchvision", "fcn_resnet50 deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large", "3x64x64", CLASSES, "weights_backbone=None"))
TIMM = (
    of("timm", "convnext_atto convnextv2_atto resnet26d resnetv2_50 resnest14d seresnet18 resnext26ts mobilenetv3_small_050 mobilenetv4_conv_small "
       "mobilevit_xxs mobilevitv2_050 ghostnet_050 edgenext_xx_small tf_efficientnet_lite0 efficientnet_b0 mixnet_s fbnetc_100 semnasnet_075 spnasnet_100 "
       "hrnet_w18_small dla34 regnetx_002 regnety_002 repvgg_a0 rexnet_100 nf_resnet26 eca_nfnet_l0 poolformer_s12 efficientvit_b0 cspresnet50 "
       "vovnet39a selecsls42b tinynet_e lcnet_050 hardcorenas_a repghostnet_050 fastvit_t8 inception_next_atto", "3x64x64", CLASSES)
    | of("timm", "vit_tiny_patch16_224 deit_tiny_patch16_224 mixer_s32_224 xcit_nano_12_p16_224 swin_tiny_patch4_window7_224 "
         "beit_base_patch16_224", "3x64x64", CLASSES, "img_size=64")
    | of("timm", "tiny_vit_5m_224 levit_128s pit_ti_224 coat_tiny cait_xxs24_224 sequencer2d_s", "3x224x224", CLASSES)
    | of("timm", "crossvit_tiny_240", "3x240x240", CLASSES))

IDS, MASKED, WORDS = "input_ids=16:int64:50", "input_ids=16:int64:50 attention_mask=16:int64:2", "16:int64:50 labels=16:int64:50"
VOCABULARY, LABELS, HEADS = "vocab_size=50", "num_labels=4", "num_key_value_heads=2"
LAYERS = ["num_hidden_layers=2", "hidden_size=32", "num_attention_heads=2"]
SMALL = [*LAYERS, "intermediate_size=64"]
SYMBOLS = [VOCABULARY, *SMALL]
TOKENS = ["pad_token_id=0", "bos_token_id=1", "eos_token_id=2"]
GPT2 = [VOCABULARY, "n_layer=2", "n_embd=32", "n_head=2", "n_positions=32", *TOKENS[1:]]
T5 = [VOCABULARY, "num_layers=2", "d_model=32", "d_kv=16", "d_ff=64", "num_heads=2", "decoder_start_token_id=0"]
TRANSFORMERS = (
    of("transformers", "GPT2LMHeadModel", IDS, *GPT2)
    | of("transformers", "BertForMaskedLM", IDS, *SYMBOLS)
    | of("transformers", "AlbertForMaskedLM", IDS, *SYMBOLS, "embedding_size=16")
    | of("transformers", "BertForSequenceClassification", MASKED, *SYMBOLS, LABELS)
    | of("transformers", "ElectraForSequenceClassification", MASKED, *SYMBOLS, "embedding_size=16", LABELS)
    | of("transformers", "RobertaForSequenceClassification", MASKED, *SYMBOLS, LABELS, "max_position_embeddings=32", *TOKENS)
    | of("transformers", "MPNetForSequenceClassification", IDS, *SYMBOLS, LABELS, "max_position_embeddings=32", *TOKENS)
    | of("transformers", "DistilBertForSequenceClassification", MASKED, VOCABULARY, "n_layers=2", "dim=32", "n_heads=2", "hidden_dim=64", LABELS)
    | of("transformers", "GPTNeoXForCausalLM PhiForCausalLM", IDS, *SYMBOLS, *TOKENS)
    | of("transformers", "LlamaForCausalLM MistralForCausalLM Qwen2ForCausalLM", IDS, *SYMBOLS, HEADS, *TOKENS)
    | of("transformers", "GemmaForCausalLM", IDS, *SYMBOLS, HEADS, "head_dim=16", *TOKENS)
    | of("transformers", "MixtralForCausalLM", IDS, *SYMBOLS, HEADS, "num_local_experts=4", *TOKENS)
    | of("transformers", "OPTForCausalLM", IDS, VOCABULARY, *LAYERS, "word_embed_proj_dim=32", "ffn_dim=64", *TOKENS)
    | of("transformers", "BloomForCausalLM", IDS, VOCABULARY, "n_layer=2", "hidden_size=32", "n_head=2", *TOKENS)
    | of("transformers", "MambaForCausalLM", IDS, VOCABULARY, "num_hidden_layers=2", "hidden_size=32", "state_size=4", *TOKENS)
    | of("transformers", "ViTForImageClassification", "3x32x32", *SMALL, "image_size=32", "patch_size=8", "num_labels=10")
    | of("transformers", "ConvNextForImageClassification", "3x64x64", "num_labels=10", "depths=[1,1,1,1]", "hidden_sizes=[8,16,24,32]")
    | of("transformers", "Dinov2ForImageClassification", "pixel_values=3x28x28", *LAYERS, "image_size=28", "patch_size=14", "num_labels=5", "mlp_ratio=2")
    | of("transformers", "SegformerForSemanticSegmentation", "pixel_values=3x64x64", "num_labels=5", "depths=[1,1,1,1]", "hidden_sizes=[8,16,24,32]",
         "num_attention_heads=[1,2,2,4]", "decoder_hidden_size=16")
    | of("transformers", "T5ForConditionalGeneration", f"{IDS} decoder_input_ids=10:int64:50", *T5)
    | of("transformers", "WhisperForConditionalGeneration", "input_features=16x40 decoder_input_ids=10:int64:50", VOCABULARY, "num_mel_bins=16",
         "max_source_positions=20", "max_target_positions=16", "d_model=32", *TOKENS, "decoder_start_token_id=3",
         *(f"{side}_{size}" for side in ("encoder", "decoder") for size in ("layers=2", "attention_heads=2", "ffn_dim=64")))
    | of("transformers", "Wav2Vec2ForSequenceClassification", "input_values=1600", *SMALL, "num_labels=5", "conv_dim=[8,8]", "conv_stride=[5,4]",
         "conv_kernel=[10,8]", "num_feat_extract_layers=2", "num_conv_pos_embeddings=16", "num_conv_pos_embedding_groups=2",
         "classifier_proj_size=16", "apply_spec_augment=False", "layerdrop=0.0"))  # fmt: skip
LOSSES = {  # networks that compute it: (inputs, settings, the input that is the target, its classes)
    "GPT2LMHeadModel": (WORDS, GPT2[:4], "labels", 50),
    "BertForMaskedLM": (WORDS, SYMBOLS, "labels", 50),
    "BertForTokenClassification": ("16:int64:50 labels=16:int64:5", [*SYMBOLS, "num_labels=5"], "labels", 5),
    "BertForSequenceClassification": ("16:int64:50 labels=:int64:5", [*SYMBOLS, "num_labels=5"], "labels", 5),
    "BertForQuestionAnswering": ("16:int64:50 start_positions=:int64:16 end_positions=:int64:16", SYMBOLS, "start_positions", 16),
    "T5ForConditionalGeneration": ("16:int64:50 labels=10:int64:50", T5, "labels", 50),
    "ViTForImageClassification": ("3x32x32 labels=:int64:5", [*SMALL, "image_size=32", "patch_size=8", "num_labels=5"], "labels", 5),
    "SegformerForSemanticSegmentation": (
        "3x64x64 labels=64x64:int64:5",
        ["num_labels=5", "depths=[1,1,1,1]", "hidden_sizes=[8,16,40,64]", "decoder_hidden_size=16"], "labels", 5),
}


class Graph(torch.nn.Module):
    """A graph convolution over a ring of six nodes."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = made_of("torch_geometric.nn.GCNConv", in_channels=8, out_channels=8)(), torch.nn.Linear(8, 5)
        self.register_buffer("edges", torch.stack([torch.arange(6), torch.arange(6).roll(-1)]))

    def forward(self, nodes):
        return self.head(self.conv(nodes, self.edges).relu().mean(1))


def adapted(config, **settings):
    """What makes GPT-2 with an adapter of peft."""
    network = lambda: make_module("transformers:GPT2LMHeadModel", parse_settings(GPT2))  # noqa: E731
    return lambda: made_of("peft.get_peft_model", model=network(), peft_config=made_of(f"peft.{config}", task_type="CAUSAL_LM", **settings)())()


def clip(vision, **settings):
    """What makes its two towers, of pictures and of texts."""
    towers = {"vision_cfg": made_of("open_clip.CLIPVisionCfg", image_size=32, **vision),
              "text_cfg": made_of("open_clip.CLIPTextCfg", context_length=16, vocab_size=50, width=32, heads=2, layers=2)}  # fmt: skip
    return lambda: made_of("open_clip.CLIP", embed_dim=32, output_dict=True, **{name: make() for name, make in towers.items()}, **settings)()


def contrast(outputs):
    return made_of("open_clip.ClipLoss")()(**outputs)


def sigmoids(outputs):
    return made_of("open_clip.loss.SigLipLoss")()(**outputs)


ATTENTION = {"target_modules": ["c_attn"], "fan_in_fan_out": True}
LORA = {"r": 4, "lora_dropout": 0.1, **ATTENTION}
PIXELS = {"encoder_name": "resnet18", "encoder_weights": None, "classes": 5}
VOXELS = {"in_channels": 1, "out_channels": 3, "channels": (4, 8, 16), "strides": (2, 2), "num_res_units": 1, "dropout": 0.1}
NOISE = {"sample_size": 16, "in_channels": 1, "out_channels": 3, "block_out_channels": (8, 16), "layers_per_block": 1,
         "norm_num_groups": 4, "attention_head_dim": 8}  # fmt: skip
TOWER = {"layers": 2, "width": 64, "head_width": 32, "patch_size": 8}
PACKAGES = {  # {name: (its inputs, what makes it)}
    "smp.FPN": ("3x64x64", made_of("segmentation_models_pytorch.FPN", **PIXELS)),
    "smp.Segformer": ("3x64x64", made_of("segmentation_models_pytorch.Segformer", **PIXELS)),
    "smp.Unet": ("3x64x64", made_of("segmentation_models_pytorch.Unet", **PIXELS)),
    "monai.UNet": ("1x16x16", made_of("monai.networks.nets.UNet", spatial_dims=2, **VOXELS)),
    "monai.UNet-3D": ("1x16x16x16", made_of("monai.networks.nets.UNet", spatial_dims=3, **VOXELS)),
    "monai.SwinUNETR": ("1x64x64", made_of("monai.networks.nets.SwinUNETR", in_channels=1, out_channels=3, feature_size=12, spatial_dims=2,
                                           depths=(1, 1, 1, 1), num_heads=(1, 1, 2, 2))),
    "diffusers.UNet2DModel": ("sample=1x16x16 timestep=:int64:1000", made_of(
        "diffusers.UNet2DModel", down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"), **NOISE)),
    "diffusers.UNet2DConditionModel": ("sample=1x16x16 timestep=:int64:1000 encoder_hidden_states=4x16", made_of(
        "diffusers.UNet2DConditionModel", down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), cross_attention_dim=16,
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), **NOISE)),
    "torch_geometric.GCNConv": ("6x8", Graph),
    "peft.LoRA": (IDS, adapted("LoraConfig", **LORA)),
    "peft.LoRA-masked": (MASKED, adapted("LoraConfig", **LORA)),
    "peft.DoRA": (IDS, adapted("LoraConfig", use_dora=True, **LORA)),
    "peft.IA3": (IDS, adapted("IA3Config", target_modules=["c_attn", "mlp.c_proj"], feedforward_modules=["mlp.c_proj"], fan_in_fan_out=True)),
    "peft.VeRA": (IDS, adapted("VeraConfig", r=4, **ATTENTION)),
    "peft.PromptTuning": (IDS, adapted("PromptTuningConfig", num_virtual_tokens=4)),
    "peft.PrefixTuning": (IDS, adapted("PrefixTuningConfig", num_virtual_tokens=4)),
}  # fmt: skip
PAIRS = "image=3x32x32 text=16:int64:50"
CONTRASTS = {  # with a loss of what they give, whose samples are compared with each other
    "open_clip.CLIP": (PAIRS, clip(TOWER), contrast),
    "open_clip.CLIP-ResNet": (PAIRS, clip({"layers": [1, 1, 1, 1], "width": 16, "head_width": 32}), contrast),
    "open_clip.SigLIP": (PAIRS, clip(TOWER, init_logit_bias=-10), sigmoids),
}
ZOO = TORCHVISION | TIMM | TRANSFORMERS
ZOO |= {f"loss:{name}": (inputs.split(), *rest) for name, (inputs, *rest) in LOSSES.items()}
ZOO |= {f"packages:{name}": (inputs.split(), *rest) for name, (inputs, *rest) in (PACKAGES | CONTRASTS).items()}
ZOO |= {f"odd:{name}": (inputs, make) for name, (make, inputs) in exported_networks.NETWORKS.items()}


def exported(name, folder):
    """Exports it. Returns what trains it in Python, and how many operators it has, where they are counted."""
    inputs, settings, *loss = ZOO[name]
    source = name.replace("loss:", "transformers:")
    made = []
    for _ in range(2 if loss else 1):
        torch.manual_seed(0)
        made.append(settings() if callable(settings) else make_module(source, parse_settings(settings)))
    if not loss:
        give_one_tensor(made[0], None)
        training = Training(made[0], inputs, folder)
        training.export()
        return training, training.nodes
    options = {"target": loss[0], "loss": True, "prediction": None}
    training = (made[1], inputs, "pixel_values" if inputs[0].startswith("3x") else "input_ids", folder, *loss)
    if callable(loss[0]):
        options = {"target": None, "loss": f"{__file__}:{loss[0].__name__}", "prediction": "image_features"}
        training = (made[1], inputs, None, folder)
    write_network(made[0], argparse.Namespace(source=type(made[0]).__name__, inputs=inputs, out=folder / "net.pt2", output=None, weights=None,
                                              **options))  # fmt: skip
    return OwnTraining(*training, **({"loss": lambda outputs, _: loss[0](outputs)} if callable(loss[0]) else {})), 0


def compared(name, folder):
    """What came of it, and the number of operators."""
    training, nodes = exported(name, folder)
    training.experiment()
    command = [os.environ["DDPRUN"], "net.yaml", "run.dir=run", "trainer.find_unused_parameters=true"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["?"])[0], nodes
    losses = training.in_python()
    wrong = unequal(training.module, weights_of(folder / "run"))
    found = [float("nan") if loss is None else loss for loss in losses_of(folder / "run")]
    same = all(a == b or (a != a and b != b) for a, b in zip(found, losses, strict=True))
    return "equal" if same and not wrong else f"differs: {len(wrong)} tensors ({', '.join(wrong[:2])}), losses {'equal' if same else 'differ'}", nodes


def print_row(name):
    with tempfile.TemporaryDirectory() as folder:
        try:
            state, nodes = compared(name, pathlib.Path(folder))
        except Exception as error:
            state, nodes = f"{type(error).__name__}: {str(error).splitlines()[0]}", 0
    print(f"| {name} | {nodes} | {state[:300]} |", flush=True)


def main(names):
    """Each in a process of its own."""
    if names and names[0] in ZOO:
        return print_row(names[0])
    print("| network | operators | bits |\n|---|---|---|", flush=True)
    rows = []
    for name in ZOO:
        if not names or f"{name.partition(':')[0]}:" in names:
            done = subprocess.run([sys.executable, "-B", __file__, name], stdout=subprocess.PIPE, text=True)
            rows.append(done.stdout.strip() or f"| {name} | | the process died |")
            print(rows[-1], flush=True)
    print(f"\n{sum(row.endswith('| equal |') for row in rows)} of {len(rows)} have equal bits.")


if __name__ == "__main__":
    main(sys.argv[1:])

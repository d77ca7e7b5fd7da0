# SPDX-License-Identifier: MIT
"""Small networks of packages that people bring: segmentation, medicine, diffusion, graphs, encoders with decoders, speech, adapters,
pictures with texts. Each needs its package alone: {name: (a function that makes it, its inputs)}."""

import torch
from torch import nn

SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
IDS, MASK = "input_ids=16:int64:50", "attention_mask=16:int64:2"


def segmentation(name):
    import segmentation_models_pytorch

    return getattr(segmentation_models_pytorch, name)("resnet18", encoder_weights=None, classes=5)


def unet_of_monai(dimensions):
    from monai.networks.nets import UNet

    return UNet(spatial_dims=dimensions, in_channels=1, out_channels=3, channels=(4, 8, 16), strides=(2, 2), num_res_units=1, dropout=0.1)


def swin_unetr():
    from monai.networks.nets import SwinUNETR

    return SwinUNETR(in_channels=1, out_channels=3, feature_size=12, spatial_dims=2, depths=(1, 1, 1, 1), num_heads=(1, 1, 2, 2))


DIFFUSION = {"sample_size": 16, "in_channels": 1, "out_channels": 3, "block_out_channels": (8, 16), "layers_per_block": 1,
             "norm_num_groups": 4, "attention_head_dim": 8}  # fmt: skip


def unet_of_noise():
    from diffusers import UNet2DModel

    return UNet2DModel(down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"), **DIFFUSION)


def unet_of_conditions():
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
                                cross_attention_dim=16, **DIFFUSION)  # fmt: skip


class Graph(nn.Module):
    """A graph convolution over a ring of six nodes."""

    def __init__(self):
        super().__init__()
        from torch_geometric.nn import GCNConv

        self.conv, self.head = GCNConv(8, 8), nn.Linear(8, 5)
        self.register_buffer("edges", torch.stack([torch.arange(6), torch.arange(6).roll(-1)]))

    def forward(self, nodes):
        return self.head(self.conv(nodes, self.edges).relu().mean(1))


def configured(name, **settings):
    import transformers

    made = getattr(transformers, name)
    return made(made.config_class(**settings))


def gpt2():
    return configured("GPT2LMHeadModel", n_layer=2, n_embd=32, n_head=2, n_positions=32, vocab_size=50, bos_token_id=1, eos_token_id=2,
                      use_cache=False)  # fmt: skip


def t5():
    return configured("T5ForConditionalGeneration", num_layers=2, d_model=32, d_kv=16, d_ff=64, num_heads=2, vocab_size=50, use_cache=False,
                      decoder_start_token_id=0)  # fmt: skip


def whisper():
    sizes = {f"{side}_{what}": value for side in ("encoder", "decoder") for what, value in
             (("layers", 2), ("attention_heads", 2), ("ffn_dim", 64))}  # fmt: skip
    return configured("WhisperForConditionalGeneration", vocab_size=50, num_mel_bins=16, max_source_positions=20, max_target_positions=16,
                      d_model=32, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3, **sizes)  # fmt: skip


def wav2vec2():
    return configured("Wav2Vec2ForSequenceClassification", num_labels=5, conv_dim=[8, 8], conv_stride=[5, 4], conv_kernel=[10, 8],
                      num_feat_extract_layers=2, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2, classifier_proj_size=16,
                      apply_spec_augment=False, layerdrop=0.0, **SMALL)  # fmt: skip


def dinov2():
    return configured("Dinov2ForImageClassification", image_size=28, patch_size=14, num_labels=5, mlp_ratio=2, num_hidden_layers=2,
                      hidden_size=32, num_attention_heads=2)  # fmt: skip


def segformer():
    return configured("SegformerForSemanticSegmentation", num_labels=5, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32],
                      num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16)  # fmt: skip


def adapted(config, **settings):
    """GPT-2 with an adapter of peft."""
    import peft

    return peft.get_peft_model(gpt2(), getattr(peft, config)(task_type="CAUSAL_LM", **settings))


def with_lora(**settings):
    return adapted("LoraConfig", r=4, lora_dropout=0.1, target_modules=["c_attn"], fan_in_fan_out=True, **settings)


def with_ia3():
    return adapted("IA3Config", target_modules=["c_attn", "mlp.c_proj"], feedforward_modules=["mlp.c_proj"], fan_in_fan_out=True)


def clip(**settings):
    """Its two towers, of pictures and of texts."""
    import open_clip

    texts = open_clip.CLIPTextCfg(context_length=16, vocab_size=50, width=32, heads=2, layers=2)
    return open_clip.CLIP(32, open_clip.CLIPVisionCfg(image_size=32, **settings.pop("vision", TOWER)), texts, output_dict=True, **settings)


def contrast(outputs):
    import open_clip

    return open_clip.ClipLoss()(**outputs)


def sigmoids(outputs):
    from open_clip.loss import SigLipLoss

    return SigLipLoss()(**outputs)


TOWER = {"layers": 2, "width": 64, "head_width": 32, "patch_size": 8}
PAIRS = ["image=3x32x32", "text=16:int64:50"]
CONTRASTS = {  # the third is the name of their loss of what they give, whose samples are compared with each other
    "open_clip.CLIP": (clip, PAIRS, "contrast"),
    "open_clip.CLIP-ResNet": (lambda: clip(vision={"layers": [1, 1, 1, 1], "width": 16, "head_width": 32}), PAIRS, "contrast"),
    "open_clip.SigLIP": (lambda: clip(init_logit_bias=-10), PAIRS, "sigmoids"),
}
PACKAGES = {
    "smp.FPN": (lambda: segmentation("FPN"), ["3x64x64"]),
    "smp.Segformer": (lambda: segmentation("Segformer"), ["3x64x64"]),
    "smp.Unet": (lambda: segmentation("Unet"), ["3x64x64"]),
    "monai.UNet": (lambda: unet_of_monai(2), ["1x16x16"]),
    "monai.UNet-3D": (lambda: unet_of_monai(3), ["1x16x16x16"]),
    "monai.SwinUNETR": (swin_unetr, ["1x64x64"]),
    "diffusers.UNet2DModel": (unet_of_noise, ["sample=1x16x16", "timestep=:int64:1000"]),
    "diffusers.UNet2DConditionModel": (unet_of_conditions, ["sample=1x16x16", "timestep=:int64:1000", "encoder_hidden_states=4x16"]),
    "torch_geometric.GCNConv": (Graph, ["6x8"]),
    "transformers.T5": (t5, [IDS, "decoder_input_ids=10:int64:50"]),
    "transformers.Whisper": (whisper, ["input_features=16x40", "decoder_input_ids=10:int64:50"]),
    "transformers.Wav2Vec2": (wav2vec2, ["input_values=1600"]),
    "transformers.Dinov2": (dinov2, ["pixel_values=3x28x28"]),
    "transformers.Segformer": (segformer, ["pixel_values=3x64x64"]),
    "peft.LoRA": (with_lora, [IDS]),
    "peft.LoRA-masked": (with_lora, [IDS, MASK]),
    "peft.DoRA": (lambda: with_lora(use_dora=True), [IDS]),
    "peft.IA3": (with_ia3, [IDS]),
    "peft.VeRA": (lambda: adapted("VeraConfig", r=4, target_modules=["c_attn"], fan_in_fan_out=True), [IDS]),
    "peft.PromptTuning": (lambda: adapted("PromptTuningConfig", num_virtual_tokens=4), [IDS]),
    "peft.PrefixTuning": (lambda: adapted("PrefixTuningConfig", num_virtual_tokens=4), [IDS]),
}

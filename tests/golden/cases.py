"""The configurations of the goldens: every family and option that qkv reproduces, shrunk.

Widths, heads and images are small and often odd (30 wide, 3 heads, 25 pixels), so that each
folder stays small and no vector width divides everything.
"""
import torch
from originals import Case
from timm.layers import SwiGLU

# 24×24 pixels in patches of 8 are 9 tokens, and the prefix.
SMALL = dict(img_size=24, patch_size=8, embed_dim=24, depth=2, num_heads=3, num_classes=7)


def timm(name, arch="vit_base_patch16_224", size=None, dtype=torch.float32, extra=None, unsaved=None, **args):
    return Case(f"timm_{name}", "timm", arch, {**SMALL, **args}, size, dtype, extra=extra or {}, unsaved=unsaved or {})


TIMM = [
    timm("vit"),
    timm("vit_labels", extra={"label_names": list("abcdefg"), "label_descriptions": {c: f"letter {c}" for c in "abcdefg"}}),
    timm("deit3", "deit3_small_patch16_224"),  # no_embed_class, init_values
    timm("layerscale", init_values=1e-5),
    timm("avg_fcnorm", class_token=False, global_pool="avg", fc_norm=True),
    timm("avg_norm", "vit_medium_patch16_gap_240"),  # no class token, qkv_bias off, LayerScale, fc_norm off
    timm("reg4_cls", reg_tokens=4),
    timm("reg4_noembed", reg_tokens=4, no_embed_class=True),
    timm("reg4_gap", "vit_medium_patch16_reg4_gap_256"),  # registers, no class token
    timm("reg1_gap_embed", class_token=False, reg_tokens=1, global_pool="avg"),
    timm("cls_avg", global_pool="avg"),  # a class token that pooling leaves out
    timm("avg_include_prefix", global_pool="avg", reg_tokens=2, pool_include_prefix=True),
    timm("max", global_pool="max"),
    timm("avgmax", global_pool="avgmax"),
    timm("map", "vit_base_patch16_siglip_224", num_heads=4),  # attention pooling, gelu_tanh
    timm("map_cls", global_pool="map", reg_tokens=1),
    timm("siglip_gap", "vit_base_patch16_siglip_gap_224"),
    timm("no_final_norm", final_norm=False, fc_norm=True),  # then there is no norm at all
    timm("clip", "vit_base_patch16_clip_quickgelu_224"),  # pre_norm, no patch bias, quick_gelu, eps 1e-5
    timm("clip_projection", "vit_base_patch16_clip_quickgelu_224", num_classes=512, depth=1),  # no classes: an embedding
    timm("pre_norm", pre_norm=True, act_layer="quick_gelu"),
    timm("qk_norm", qk_norm=True),
    timm("qkv_bias_off", qkv_bias=False),
    timm("proj_bias_off", proj_bias=False),
    timm("scale_norms", scale_attn_norm=True, scale_mlp_norm=True),
    timm("gelu_tanh", act_layer="gelu_tanh"),
    timm("swiglu_packed", "vit_giant_patch14_reg4_dinov2", num_classes=5, embed_dim=30),  # mlp_ratio 5.33334
    timm("dinov2", "vit_small_patch14_dinov2", num_classes=0, init_values=1e-5),
    # timm takes this MLP as a class only, which no config.json can hold: qkv takes its name.
    timm("swiglu", unsaved={"mlp_layer": SwiGLU}, act_layer="silu", mlp_ratio=2.5),
    timm("geglu", "vit_giant_patch14_reg4_dinov2", act_layer="gelu", mlp_ratio=3),
    timm("distilled", "deit_tiny_distilled_patch16_224"),
    timm("distilled_features", "deit_tiny_distilled_patch16_224", num_classes=0),
    timm("features", num_classes=0),
    timm("grey", in_chans=1),
    timm("non_square", img_size=(24, 40)),
    timm("non_square_patch", img_size=(24, 32), patch_size=(4, 8), depth=1),
    timm("indivisible", img_size=29, depth=1),  # the last 5 rows and columns are not seen
    timm("odd_width", embed_dim=30, num_heads=3, mlp_ratio=2.5),
    timm("one_head_wide", embed_dim=36, num_heads=1, depth=1),
    timm("depth1_patch7", img_size=28, patch_size=7, depth=1),
    timm("no_pos_embed", pos_embed="none"),
    timm("resized", size=(48, 40)),
    timm("resized_noembed", size=(40, 48), reg_tokens=4, no_embed_class=True),
    timm("resized_down", size=(16, 24), img_size=40, reg_tokens=1, depth=1),
    timm("resized_from_non_square", size=(32, 40), img_size=(24, 40), depth=1),
    timm("resized_same_count", size=(16, 64), img_size=32, depth=1),
    timm("resized_distilled", "deit_tiny_distilled_patch16_224", size=(40, 24), depth=1),
    *(timm(f"kind_{kind}", extra={"qkv_attention": kind}) for kind in
      ("shared", "unified", "shared_kv", "merged", "positional", "gaussian")),
    timm("kind_low_rank", extra={"qkv_attention": "low_rank", "qkv_attention_rank": 3}),
    timm("kind_symmetric", extra={"qkv_attention": "symmetric", "qkv_attention_rank": 5}),
    timm("kind_merged_no_bias", qkv_bias=False, extra={"qkv_attention": "merged"}, img_size=(24, 40), depth=1),
    timm("kind_shared_qk_norm", qk_norm=True, extra={"qkv_attention": "shared"}, depth=1),
    timm("kind_gaussian_gap", class_token=False, global_pool="avg", img_size=(24, 40), depth=1,
         extra={"qkv_attention": "gaussian"}),
    timm("aimv2", "aimv2_large_patch14_224"),  # RMSNorm, also after the patch projection; SwiGLU of 2 layers
    timm("rms", "test_vit4"),  # RMSNorm, LayerScale
    timm("rms_qk_norm", "test_vit4", qk_norm=True, pre_norm=True, global_pool="map", num_heads=4, depth=1),
    timm("output_norms", "vit_base_patch16_rpn_224"),
    timm("parallel", "vit_base_patch16_xp_224"),  # RMSNorm, qk_norm, no biases of queries, keys and values
    timm("parallel_scaled", "vit_pwee_patch16_reg1_gap_256"),  # LayerScale; an MLP five times as wide
    timm("parallel_biases", "vit_base_patch16_xp_224", qkv_bias=True, size=(40, 48), depth=1),
    timm("differential", "vit_dwee_patch16_reg1_gap_256"),
    timm("differential_resized", "vit_dwee_patch16_reg1_gap_256", qk_norm=True, qkv_bias=False, scale_attn_norm=True,
         class_token=True, global_pool="token", size=(40, 48), depth=1),
    timm("differential_parallel", "vit_dpwee_patch16_reg1_gap_256"),
    # timm's class Eva
    timm("dinov3", "vit_small_patch16_dinov3_qkvb", global_pool="token"),
    timm("dinov3_plus", "vit_small_plus_patch16_dinov3", num_classes=0),  # no biases of q, k, v; SwiGLU of 2 layers
    timm("dinov3_resized", "vit_small_patch16_dinov3_qkvb", size=(40, 48), depth=1),
    timm("eva", "eva_giant_patch14_224"),  # no rotary positions, no bias of keys
    timm("eva02", "eva02_tiny_patch14_224"),  # SwiGLU in one layer
    timm("eva02_norms", "eva02_base_patch14_224", img_size=(24, 40)),  # q, k, v apart; a norm inside SwiGLU
    timm("eva02_clip", "eva02_base_patch16_clip_224"),  # a norm before the projection too
    timm("eva02_output_norms", "eva02_enormous_patch14_clip_224"),
    timm("eva02_projection", "eva02_base_patch16_clip_224", num_classes=512, depth=1),  # no classes: an embedding
    timm("eva02_resized", "eva02_base_patch14_224", size=(40, 24), depth=1),
    timm("eva_qk_norm", "eva02_tiny_patch14_224", qk_norm=True, rope_rotate_half=True, depth=1),
    timm("rope_gap", "vit_medium_patch16_rope_reg1_gap_256"),
    timm("rope_gap_no_bias", "vit_mediumd_patch16_rope_reg1_gap_256", depth=1),
    timm("rope_gap_resized", "vit_betwixt_patch16_rope_reg4_gap_256", size=(32, 48), depth=1),
    timm("rope_axial", "vit_small_patch16_rope_ape_224", img_size=(24, 40)),
    timm("rope_axial_resized", "vit_base_patch16_rope_224", size=(40, 16), depth=1),
    timm("rope_mixed", "vit_small_patch16_rope_mixed_224", img_size=(24, 40)),
    timm("rope_mixed_ape", "vit_small_patch16_rope_mixed_ape_224", depth=1),
    timm("rope_mixed_resized", "vit_small_patch16_rope_mixed_ape_224", size=(32, 40)),
    timm("pe_core", "vit_pe_core_base_patch16_224"),
    timm("pe_core_no_token", "vit_pe_core_gigantic_patch14_448", depth=1),
    timm("pe_core_resized", "vit_pe_core_large_patch14_336", size=(16, 40), depth=1),
    timm("pe_spatial", "vit_pe_spatial_base_patch16_512", num_classes=0),
    timm("pe_lang", "vit_pe_lang_large_patch14_448", depth=1),
    # timm's class Beit
    timm("beit", "beit_base_patch16_224", img_size=(24, 40)),
    timm("beitv2", "beitv2_base_patch16_224", num_classes=0),
    timm("beit_shared", "beit_base_patch16_224", use_rel_pos_bias=False, use_shared_rel_pos_bias=True, use_abs_pos_emb=True,
         global_pool="token", init_values=None, num_heads=1, embed_dim=36),  # merged where a head is wide
    timm("beit_both", "beit_base_patch16_224", use_shared_rel_pos_bias=True, swiglu_mlp=True, scale_mlp=True,
         qkv_bias=False, depth=1),
    timm("beit_resized", "beit_base_patch16_224", size=(48, 40)),
    timm("beit_resized_down", "beit_base_patch16_224", size=(16, 32), img_size=40, use_abs_pos_emb=True, depth=1),
    timm("f16", dtype=torch.float16),
    timm("bf16", "deit3_small_patch16_224", dtype=torch.bfloat16),
]


def hf(name, kind, size=None, dtype=torch.float32, new_names=False, shard=None, **args):
    small = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, image_size=24, patch_size=8, num_labels=7)
    if not kind.startswith(("Dinov2", "EomtFor")):
        small["intermediate_size"] = 50
    if "id2label" in args or kind.startswith("DINOv3"):
        small.pop("num_labels")
    if kind.endswith("ForPreTraining"):
        small.pop("num_labels")
    return Case(f"hf_{name}", "transformers", kind, {**small, **args}, size, dtype, new_names, shard)


PETS = {0: "cat", 1: "dog", 2: "guinea pig"}

THINGS = {0: "N/A", 1: "person", 2: "cat", 3: "remote control"}

HF = [
    hf("vit", "ViTForImageClassification"),
    hf("vit_labels", "ViTForImageClassification", id2label=PETS, label2id={v: k for k, v in PETS.items()}),
    hf("vit_new_names", "ViTForImageClassification", new_names=True),
    hf("vit_sharded", "ViTForImageClassification", shard="20KB"),
    hf("vit_bf16", "ViTForImageClassification", dtype=torch.bfloat16),
    hf("vit_model_pooler", "ViTModel"),
    hf("vit_model_pooler_narrow", "ViTModel", pooler_output_size=10, pooler_act="relu", num_hidden_layers=1),
    hf("vit_model", "ViTModel", add_pooling_layer=False),
    hf("vit_model_new_names", "ViTModel", new_names=True),
    hf("vit_gelu_new", "ViTForImageClassification", hidden_act="gelu_new"),
    hf("vit_relu", "ViTForImageClassification", hidden_act="relu"),
    hf("vit_quick_gelu", "ViTForImageClassification", hidden_act="quick_gelu"),
    hf("vit_grey", "ViTForImageClassification", num_channels=1),
    hf("vit_qkv_bias_off", "ViTForImageClassification", qkv_bias=False),
    hf("vit_odd_width", "ViTForImageClassification", hidden_size=30, num_attention_heads=3, intermediate_size=37),
    hf("vit_non_square", "ViTForImageClassification", image_size=(24, 40)),
    hf("vit_resized", "ViTForImageClassification", size=(48, 40)),
    hf("vit_resized_down", "ViTForImageClassification", size=(16, 32), image_size=40, num_hidden_layers=1),
    hf("deit", "DeiTForImageClassification"),
    hf("deit_teacher", "DeiTForImageClassificationWithTeacher"),
    hf("deit_model", "DeiTModel"),
    hf("deit_new_names", "DeiTForImageClassificationWithTeacher", new_names=True),
    hf("deit_resized", "DeiTForImageClassificationWithTeacher", size=(32, 48)),
    hf("dinov2", "Dinov2ForImageClassification"),
    hf("dinov2_model", "Dinov2Model"),
    hf("dinov2_no_mask_token", "Dinov2Model", use_mask_token=False, num_hidden_layers=1),
    hf("dinov2_swiglu", "Dinov2ForImageClassification", use_swiglu_ffn=True),
    hf("dinov2_swiglu_new_names", "Dinov2Model", use_swiglu_ffn=True, new_names=True),
    hf("dinov2_resized", "Dinov2ForImageClassification", size=(48, 40)),
    hf("dinov2_resized_same_count", "Dinov2Model", size=(16, 64), image_size=32, num_hidden_layers=1),
    hf("dinov2_registers", "Dinov2WithRegistersForImageClassification"),
    hf("dinov2_registers_model", "Dinov2WithRegistersModel", num_register_tokens=2, use_swiglu_ffn=True),
    hf("dinov2_registers_resized", "Dinov2WithRegistersForImageClassification", size=(48, 40)),
    hf("dinov2_registers_resized_down", "Dinov2WithRegistersModel", size=(16, 24), image_size=40, num_hidden_layers=1),
    hf("mae", "ViTMAEModel"),
    hf("mae_pretraining", "ViTMAEForPreTraining", decoder_hidden_size=16, decoder_num_attention_heads=2,
       decoder_num_hidden_layers=1, decoder_intermediate_size=20, num_hidden_layers=1),
    hf("mae_resized", "ViTMAEModel", size=(48, 40), num_hidden_layers=1, new_names=True),
    hf("msn", "ViTMSNForImageClassification"),
    hf("msn_model_resized", "ViTMSNModel", size=(24, 40), num_hidden_layers=1, qkv_bias=False),
    hf("ijepa", "IJepaModel"),
    hf("ijepa_classifier_resized", "IJepaForImageClassification", size=(40, 32)),
    hf("beit", "BeitForImageClassification", use_relative_position_bias=True),
    hf("beit_shared", "BeitModel", use_shared_relative_position_bias=True, use_absolute_position_embeddings=True,
       use_mean_pooling=False, use_mask_token=True),
    hf("beit_both", "BeitForImageClassification", use_relative_position_bias=True, use_shared_relative_position_bias=True,
       use_mean_pooling=False, new_names=True),
    hf("beit_absolute", "BeitModel", use_absolute_position_embeddings=True, layer_scale_init_value=0.0, size=(32, 40)),
    hf("beit_pretraining", "BeitForMaskedImageModeling", use_shared_relative_position_bias=True, use_mask_token=True,
       vocab_size=11, num_hidden_layers=1),
    hf("beit_non_square", "BeitModel", use_relative_position_bias=True, image_size=(24, 40), num_hidden_layers=1),
    hf("beit_resized", "BeitForImageClassification", use_relative_position_bias=True, size=(48, 40)),
    hf("beit_shared_resized", "BeitModel", use_shared_relative_position_bias=True, use_absolute_position_embeddings=True,
       use_mean_pooling=False, size=(41, 35), new_names=True),
    hf("data2vec", "Data2VecVisionForImageClassification", use_relative_position_bias=True),
    hf("data2vec_model_resized", "Data2VecVisionModel", use_relative_position_bias=True, size=(16, 32),
       image_size=40, num_hidden_layers=1, use_shared_relative_position_bias=True),
    hf("yolos", "YolosForObjectDetection", image_size=(24, 40), num_detection_tokens=5, num_hidden_layers=3,
       id2label=THINGS, label2id={v: k for k, v in THINGS.items()}),
    hf("yolos_resized", "YolosForObjectDetection", image_size=(24, 40), num_detection_tokens=3, size=(41, 35),
       num_hidden_layers=3, new_names=True),
    hf("yolos_plain", "YolosForObjectDetection", image_size=(24, 24), num_detection_tokens=4, use_mid_position_embeddings=False,
       qkv_bias=False, size=(32, 24)),
    hf("yolos_model", "YolosModel", image_size=(32, 24), num_detection_tokens=2),
    hf("eomt", "EomtForUniversalSegmentation", num_queries=5, num_blocks=2, num_hidden_layers=3,
       id2label=THINGS, label2id={v: k for k, v in THINGS.items()}),
    hf("eomt_swiglu", "EomtForUniversalSegmentation", num_queries=2, num_blocks=1, num_hidden_layers=1, num_register_tokens=1,
       use_swiglu_ffn=True, num_upscale_blocks=3),
    hf("eomt_semantic", "EomtForUniversalSegmentation", num_queries=7, num_blocks=1, num_upscale_blocks=0, hidden_act="relu"),
    hf("eomt_dinov3", "EomtDinov3ForUniversalSegmentation", num_queries=5, num_blocks=1, num_hidden_layers=2,
       id2label=THINGS, label2id={v: k for k, v in THINGS.items()}),
    hf("eomt_dinov3_gated", "EomtDinov3ForUniversalSegmentation", num_queries=3, num_blocks=1, use_gated_mlp=True,
       hidden_act="silu", key_bias=True, num_upscale_blocks=1),
    hf("dinov3", "DINOv3ViTModel", num_register_tokens=4),
    hf("dinov3_7b", "DINOv3ViTModel", num_register_tokens=4, use_gated_mlp=True, hidden_act="silu",
       query_bias=False, value_bias=False),
    hf("dinov3_key_bias", "DINOv3ViTModel", key_bias=True, proj_bias=False, num_hidden_layers=1),
    hf("dinov3_new_names", "DINOv3ViTModel", num_register_tokens=1, use_gated_mlp=True, new_names=True),
    hf("dinov3_non_square", "DINOv3ViTModel", num_register_tokens=2, image_size=(24, 40), rope_theta=50.0,
       num_hidden_layers=1),
    hf("dinov3_resized", "DINOv3ViTModel", num_register_tokens=4, size=(41, 50)),
]


def towers(name, kind, vision=None, text=None, size=None, dtype=torch.float32, **args):
    """CLIP and SigLIP, both towers or the images' alone."""
    image = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, image_size=24, patch_size=8,
                 intermediate_size=50, **(vision or {}))
    words = dict(hidden_size=20, num_hidden_layers=2, num_attention_heads=2, intermediate_size=44, vocab_size=40,
                 max_position_embeddings=9, **(text or {}))
    if kind.startswith("Siglip"):
        words["projection_size"] = 24
    if "Vision" in kind:
        return Case(f"hf_{name}", "transformers", kind, {**image, **args}, size, dtype)
    return Case(f"hf_{name}", "transformers", kind, {"vision_config": image, "text_config": words, **args}, size, dtype)


def open_clip(name, kind, vision=None, text=None, timm_args=None, embed_dim=14, **args):
    """open_clip's CLIP, and CustomTextCLIP with timm's models."""
    image = dict(image_size=24, **(vision or {}))
    if not timm_args:
        image |= dict(patch_size=8, width=24, head_width=8, layers=2, mlp_ratio=2)
    words = dict(context_length=9, vocab_size=40, width=20, heads=2, layers=2, mlp_ratio=2.2, **(text or {}))
    preprocess = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "interpolation": "bicubic", "resize_mode": "squash"}
    return Case(f"open_clip_{name}", "open_clip", kind,
                dict(embed_dim=embed_dim, vision_cfg=image, text_cfg=words, **args), extra=preprocess,
                unsaved={"timm_args": timm_args} if timm_args else {})  # fmt: skip


TOWERS = [
    towers("clip", "CLIPModel", text={"eos_token_id": 2}, projection_dim=14),
    towers("clip_end", "CLIPModel", vision={"hidden_act": "gelu"}, text={"eos_token_id": 39, "hidden_act": "gelu"},
           projection_dim=14, text_mask=True, text_padding=0),
    towers("clip_resized", "CLIPModel", size=(32, 40), vision={"num_channels": 1}, text={"eos_token_id": 39},
           projection_dim=30),
    towers("clip_bf16", "CLIPModel", text={"eos_token_id": 2}, projection_dim=14, dtype=torch.bfloat16),
    towers("clip_vision", "CLIPVisionModel"),
    towers("clip_vision_projection", "CLIPVisionModelWithProjection", projection_dim=14),
    towers("siglip", "SiglipModel"),
    towers("siglip_mask_resized", "SiglipModel", text_mask=True, text_padding=0, size=(32, 24)),
    towers("siglip_vision", "SiglipVisionModel"),
    towers("siglip_vision_no_head", "SiglipVisionModel", vision_use_head=False),
    towers("siglip_classifier", "SiglipForImageClassification", num_labels=7),
    open_clip("clip", "CLIP", quick_gelu=True),
    open_clip("clip_options", "CLIP", vision=dict(pool_type="avg", no_ln_pre=True, ls_init_value=0.1,
              final_ln_after_pool=True), text=dict(pool_type="eos", eos_id=39, norm_kwargs={"eps": 1e-3})),
    open_clip("siglip", "CustomTextCLIP", vision=dict(timm_model_name="vit_base_patch16_siglip_224", timm_pool="map",
              timm_proj="none"), timm_args=dict(img_size=24, patch_size=8, embed_dim=24, depth=2, num_heads=3),
              text=dict(no_causal_mask=True, proj_bias=True, pool_type="last", norm_kwargs={"eps": 1e-6},
                        act_kwargs={"approximate": "tanh"}), embed_dim=24, init_logit_bias=-10, custom_text=True),
    open_clip("timm_linear", "CustomTextCLIP", vision=dict(timm_model_name="vit_base_patch16_224", timm_pool="token",
              timm_proj="linear"), timm_args=dict(img_size=24, patch_size=8, embed_dim=24, depth=1, num_heads=3),
              custom_text=True),
    towers("clip_classifier", "CLIPForImageClassification", num_labels=7, text={"eos_token_id": 2}),
]


def vit_pytorch(name, kind="ViT", **args):
    small = dict(image_size=24, patch_size=8, num_classes=7, dim=24, depth=2, heads=3, mlp_dim=40, dim_head=8)
    return Case(f"vit_pytorch_{name}", "vit-pytorch", kind, {**small, **args})


VIT_PYTORCH = [
    vit_pytorch("vit"),
    vit_pytorch("mean", pool="mean"),
    vit_pytorch("dim_head", heads=2, dim_head=20),
    vit_pytorch("one_head", heads=1, dim_head=24),  # no output projection
    vit_pytorch("one_head_narrow", heads=1, dim_head=10),
    vit_pytorch("grey", channels=1),
    vit_pytorch("non_square", image_size=(24, 40)),
    vit_pytorch("non_square_patch", image_size=(24, 32), patch_size=(4, 8), depth=1),
    vit_pytorch("old", "ViT 1.11"),
    vit_pytorch("old_mean", "ViT 1.11", pool="mean", depth=1),  # the mean counts the class token
    vit_pytorch("simple", "SimpleViT"),
    vit_pytorch("simple_non_square", "SimpleViT", image_size=(24, 40), dim_head=10),
    vit_pytorch("simple_one_head", "SimpleViT", heads=1, dim_head=24, channels=1),
]

CASES = {case.name: case for case in TIMM + HF + TOWERS + VIT_PYTORCH}

// Names of the tensors of timm's VisionTransformer: the canonical ones. '@' is nothing in timm's own files, and
// "visual.trunk." in those of open_clip.
#pragma once

#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {

inline constexpr NameRow kTimmRows[] = {
    {"cls_token", "@cls_token"},
    {"dist_token", "@dist_token"},
    {"reg_token", "@reg_token|register_tokens"},  // the second as DINOv2's authors name it
    {"pos_embed", "@pos_embed"},
    {"patch_embed.proj", "@patch_embed.proj"},
    {"patch_embed.norm_out", "@patch_embed.norm"},
    {"norm_pre", "@norm_pre"},
    {"blocks.{}.norm1", "@blocks.{}.norm1"},
    {"blocks.{}.attn.qkv", "@blocks.{}.attn.qkv"},
    {"blocks.{}.attn.q_norm", "@blocks.{}.attn.q_norm"},
    {"blocks.{}.attn.k_norm", "@blocks.{}.attn.k_norm"},
    {"blocks.{}.attn.norm", "@blocks.{}.attn.norm"},
    {"blocks.{}.attn.proj", "@blocks.{}.attn.proj"},
    {"blocks.{}.ls1.gamma", "@blocks.{}.ls1.gamma"},
    {"blocks.{}.norm2", "@blocks.{}.norm2"},
    {"blocks.{}.mlp.fc1", "@blocks.{}.mlp.fc1|@blocks.{}.mlp.fc1_g+@blocks.{}.mlp.fc1_x|@blocks.{}.mlp.w12"},
    {"blocks.{}.mlp.norm", "@blocks.{}.mlp.norm"},
    {"blocks.{}.mlp.fc2", "@blocks.{}.mlp.fc2|@blocks.{}.mlp.w3"},
    {"blocks.{}.ls2.gamma", "@blocks.{}.ls2.gamma"},
    {"norm", "@norm"},
    {"attn_pool.latent", "@attn_pool.latent"},
    {"attn_pool.q", "@attn_pool.q"},
    {"attn_pool.kv", "@attn_pool.kv"},
    {"attn_pool.proj", "@attn_pool.proj"},
    {"attn_pool.norm", "@attn_pool.norm"},
    {"attn_pool.mlp.fc1", "@attn_pool.mlp.fc1"},
    {"attn_pool.mlp.fc2", "@attn_pool.mlp.fc2"},
    {"fc_norm", "@fc_norm"},
    {"projection", "@head"},
    {"head", "@head"},
    {"head_dist", "@head_dist"},
};

}  // namespace qkv::model

// Tensor names of attention kinds other than separate queries, keys and values. Every family's layout uses the
// canonical ones: no library has names for them, but for timm, which has those of differential attention.
#pragma once

#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {

inline constexpr NameRow kAttentionKindRows[] = {
    {"blocks.{}.attn.v", "blocks.{}.attn.v"},
    {"blocks.{}.attn.qk", "blocks.{}.attn.qk"},
    {"blocks.{}.attn.qk.query", "blocks.{}.attn.qk.query"},
    {"blocks.{}.attn.qk.key", "blocks.{}.attn.qk.key"},
    {"blocks.{}.attn.qk.merged", "blocks.{}.attn.qk.merged"},
    {"blocks.{}.attn.qk.key_term", "blocks.{}.attn.qk.key_term"},
    {"blocks.{}.attn.qk.eigenvalues", "blocks.{}.attn.qk.eigenvalues"},
    {"blocks.{}.attn.qk.bandwidth", "blocks.{}.attn.qk.bandwidth"},
    {"blocks.{}.attn.lambda_q1", "blocks.{}.attn.lambda_q1"},
    {"blocks.{}.attn.lambda_k1", "blocks.{}.attn.lambda_k1"},
    {"blocks.{}.attn.lambda_q2", "blocks.{}.attn.lambda_q2"},
    {"blocks.{}.attn.lambda_k2", "blocks.{}.attn.lambda_k2"},
    {"blocks.{}.attn.sub_norm", "blocks.{}.attn.sub_norm"},
};

}  // namespace qkv::model

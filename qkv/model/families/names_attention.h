// Tensor names of attention kinds without separate queries, keys and values. No library has names for them, so every
// family's layout uses the canonical ones.
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
};

}  // namespace qkv::model

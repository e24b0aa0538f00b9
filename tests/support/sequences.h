// Small sequence models of every kind, for tests of training and inference.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/model/config/sequence_config.h"
#include "tests/support/sampler.h"

namespace qkv::model {

struct NamedSequence {
  std::string name;
  SequenceConfig config;
};
inline void PrintTo(const NamedSequence& c, std::ostream* out) { *out << c.name; }

/// Seven tokens of six kinds, three answers, two blocks of width 8.
inline SequenceConfig SmallSequence() {
  SequenceConfig c;
  c.vocabulary = 6, c.outputs = 3, c.length = 7;
  c.block.width = 8, c.depth = 2, c.block.attention.heads = 2, c.block.attention.head_width = 4, c.block.mlp.width = 10;
  c.rotary_base = 10;  // so that the slower pair of features rotates noticeably
  return c;
}

/// Every kind of attention with every compatible kind of positions, as encoder and as decoder, in one block; then the
/// options, in two.
inline std::vector<NamedSequence> NamedSequences() {
  using nn::AttentionKind;
  std::vector<NamedSequence> all;
  for (const std::string_view kind : {"separate", "shared", "unified", "shared_kv", "merged", "low_rank", "symmetric",
                                      "gaussian", "positional", "differential"}) {
    for (const std::string_view positions : {"none", "learned", "sinusoidal", "rotary"}) {
      SequenceConfig c = SmallSequence();
      c.depth = 1;
      c.block.attention.kind = *FindAttentionKind(kind), c.positions = *FindSequencePositions(positions);
      if (c.block.attention.kind == AttentionKind::kLowRank || c.block.attention.kind == AttentionKind::kSymmetric) {
        c.block.attention.qk_width = 2;
      }
      // Each map is as wide as the other kinds' heads: norms over two features are too steep for differences.
      if (c.block.attention.kind == AttentionKind::kDifferential) c.block.attention.head_width = 8;
      if (c.positions == SequencePositions::kRotary && !nn::AllowsRotary(c.block.attention.kind)) continue;
      for (const bool causal : {false, true}) {
        c.causal = causal;
        all.push_back({std::string(kind) + "_" + std::string(positions) + (causal ? "_decoder" : "_encoder"), c});
      }
    }
  }
  const auto add = [&](const char* name, auto&& change) {
    NamedSequence& c = all.emplace_back(NamedSequence{name, SmallSequence()});
    c.config.causal = true;
    change(c.config);
  };
  const auto rotary = SequencePositions::kRotary;
  add("two_blocks", [](auto&) {});
  add("no_bias", [](auto& c) { c.block.attention.bias = false; });
  add("normed", [](auto& c) { c.block.attention.qk_norm = true; });
  add("normed_rotary", [=](auto& c) { c.block.attention.qk_norm = true, c.positions = rotary; });
  add("shared_normed_rotary", [=](auto& c) {
    c.block.attention.kind = AttentionKind::kShared, c.block.attention.qk_norm = true, c.positions = rotary;
  });
  add("gated_scaled", [](auto& c) {
    c.block.mlp.gate = simd::Gate::kFirst, c.block.layer_scale = true, c.block.mlp.activation = simd::Activation::kSilu;
  });
  add("one_head_rotary",
      [=](auto& c) { c.block.attention.heads = 1, c.block.attention.head_width = 8, c.positions = rotary; });
  add("wide_heads_rotary", [=](auto& c) { c.block.attention.head_width = 6, c.positions = rotary; });
  add("narrow_heads", [](auto& c) { c.block.attention.head_width = 3; });
  add("no_blocks", [](auto& c) { c.depth = 0; });
  add("rms_norm", [](auto& c) { c.block.norm.kind = simd::NormKind::kRms, c.block.attention.qk_norm = true; });
  add("norm_after", [](auto& c) { c.block.norm_place = nn::NormPlace::kAfter, c.final_norm = false; });
  add("rms_norm_after_encoder", [](auto& c) {
    c.block.norm = {.kind = simd::NormKind::kRms}, c.block.norm_place = nn::NormPlace::kAfter, c.causal = false;
  });
  add("norm_without_bias", [](auto& c) { c.block.norm.bias = false; });
  add("grouped_heads_rotary", [=](auto& c) {
    c.block.attention.heads = 4, c.block.attention.head_width = 2, c.block.attention.key_heads = 2,
    c.positions = rotary;
  });
  add("differential_normed_rotary_of_one_key_head", [=](auto& c) {
    c.block.attention.kind = AttentionKind::kDifferential, c.block.attention.head_width = 8,
    c.block.attention.qk_norm = true, c.block.attention.key_heads = 1, c.positions = rotary;
  });
  add("one_key_head", [](auto& c) { c.block.attention.heads = 4, c.block.attention.key_heads = 1; });
  add("window", [](auto& c) { c.block.attention.window_left = 2; });
  add("window_of_one_key_head_rotary",
      [=](auto& c) { c.block.attention.window_left = 3, c.block.attention.key_heads = 1, c.positions = rotary; });
  add("window_encoder",
      [](auto& c) { c.block.attention.window_left = 1, c.block.attention.window_right = 2, c.causal = false; });
  return all;
}

/// Random tokens [B, N] of the vocabulary.
inline Tensor<int32_t> RandomTokens(const SequenceConfig& c, int64_t B, int64_t N, uint64_t seed = 4) {
  Sampler sampler(seed);
  Tensor<int32_t> tokens({B, N});
  for (int32_t& token : tokens.span()) {
    token = static_cast<int32_t>(sampler.rng().Next() % static_cast<uint64_t>(c.vocabulary));
  }
  return tokens;
}

}  // namespace qkv::model

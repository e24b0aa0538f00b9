// Small pairs of encoder and decoder, for tests of training.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/model/config/block_config.h"
#include "qkv/train/network/pair_network.h"

namespace qkv::train {

struct NamedPair {
  std::string name;
  PairConfig config;
};
inline void PrintTo(const NamedPair& c, std::ostream* out) { *out << c.name; }

/// Eleven tokens, up to six of them a side, width 8; one block on the left, two on the right.
inline PairConfig SmallPair() {
  PairConfig pair;
  model::SequenceConfig& c = pair.encoder;
  c.vocabulary = 11, c.outputs = 0, c.length = 6, c.depth = 1;
  c.block.width = 8, c.block.attention.heads = 2, c.block.attention.head_width = 4, c.block.mlp.width = 10;
  c.block.mlp.activation = simd::Activation::kGelu;  // smooth, for differences
  c.block.norm_place = nn::NormPlace::kAfter, c.final_norm = false;
  c.block.norm.eps = 1e-5;
  c.positions = model::SequencePositions::kSinusoidalHalves;
  c.embedding_scale = 2.5;
  c.head_bias = false;
  pair.decoder = c;
  pair.decoder.depth = 2, pair.decoder.causal = true, pair.decoder.tied_head = true, pair.decoder.outputs = 11;
  pair.decoder.block.cross = c.block.attention;
  pair.decoder.block.cross->of_source = true;
  return pair;
}

inline void SetKind(nn::AttentionKind kind, nn::AttentionConfig* c) {
  c->kind = kind;
  const bool ranked = kind == nn::AttentionKind::kLowRank || kind == nn::AttentionKind::kSymmetric;
  c->qk_width = ranked ? 2 : 0;
  // Each map is as wide as the other kinds' heads: norms over two features are too steep for differences.
  if (kind == nn::AttentionKind::kDifferential) c->heads = 1, c->head_width = 8;
}

/// Marian's, each kind of attention in both roles, norms before the layers, and no scale.
inline std::vector<NamedPair> NamedPairs() {
  std::vector<NamedPair> all = {{"marian", SmallPair()}};
  for (const std::string_view name : {"shared", "unified", "shared_kv", "merged", "low_rank", "symmetric", "gaussian",
                                      "positional", "differential"}) {
    NamedPair& c = all.emplace_back(NamedPair{std::string(name), SmallPair()});
    const nn::AttentionKind kind = *model::FindAttentionKind(name);
    c.config.decoder.depth = 1;
    SetKind(kind, &c.config.encoder.block.attention);
    SetKind(kind, &c.config.decoder.block.attention);
    if (!nn::IsPositional(kind)) SetKind(kind, &*c.config.decoder.block.cross);
  }
  const auto add = [&](const char* name, auto&& change) {
    change(all.emplace_back(NamedPair{name, SmallPair()}).config);
  };
  add("norm_before", [](PairConfig& c) {
    for (model::SequenceConfig* part : {&c.encoder, &c.decoder}) {
      part->block.norm_place = nn::NormPlace::kBefore, part->final_norm = true;
    }
  });
  add("unscaled_with_bias", [](PairConfig& c) {
    c.encoder.embedding_scale = c.decoder.embedding_scale = 1;
    c.decoder.head_bias = true;
  });
  return all;
}

}  // namespace qkv::train

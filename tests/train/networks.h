// Small models of every make, with random weights, for tests of training.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/train/network/network.h"
#include "tests/support/sampler.h"

namespace qkv::train {

/// 8x8 images of two channels in 4x4 patches, two blocks of width 8.
inline model::VitConfig SmallConfig() {
  model::VitConfig c;
  c.image_height = c.image_width = 8, c.patch_height = c.patch_width = 4, c.channels = 2;
  c.block.width = 8, c.depth = 2, c.block.attention.heads = 2, c.block.attention.head_width = 4, c.block.mlp.width = 10,
  c.classes = 3;
  return c;
}

/// Every tensor random, gains around 1, bandwidths around a patch.
template <typename T>
Tensor<T> RandomWeights(const ParameterLayout& layout, uint64_t seed = 1) {
  Sampler sampler(seed);
  Tensor<T> weights({layout.size()});
  for (const Slot& slot : layout.slots()) {
    const bool bandwidth = slot.name.ends_with("bandwidth");
    const bool around_one = bandwidth || (slot.role == model::Role::kNorm && slot.name.ends_with(".weight"));
    for (int64_t i = 0; i < slot.shape.size(); ++i) {
      weights[slot.offset + i] =
          static_cast<T>((around_one ? 1 : 0) + (around_one ? 0.1 : 0.3) * sampler.rng().Normal());
    }
  }
  return weights;
}

struct NamedConfig {
  std::string name;
  model::VitConfig config;
  NetworkOptions options = {};
};
inline void PrintTo(const NamedConfig& c, std::ostream* out) { *out << c.name; }

/// One for everything that VitConfig can say, and one for each kind of attention and each option.
inline std::vector<NamedConfig> NamedConfigs() {
  using model::Pool;
  using nn::AttentionKind;
  std::vector<NamedConfig> all;
  const auto add = [&](const char* name, auto&& change) {
    NamedConfig& c = all.emplace_back(NamedConfig{name, SmallConfig()});
    change(c.config);
    if (c.config.prefix() == 0) c.config.position_prefix = 0;
    return &c;
  };
  add("Token", [](auto&) {});
  add("MeanOfPatches", [](auto& c) { c.pool = Pool::kMean, c.registers = 2, c.final_norm = false, c.fc_norm = true; });
  add("MeanWithoutToken", [](auto& c) { c.pool = Pool::kMean, c.class_token = false; });
  add("MeanOfAll", [](auto& c) { c.pool = Pool::kMean, c.pool_prefix = true; });
  add("Max", [](auto& c) { c.pool = Pool::kMax; });
  add("MeanMax", [](auto& c) { c.pool = Pool::kMeanMax, c.position_prefix = 0; });
  add("Map", [](auto& c) { c.pool = Pool::kMap, c.class_token = false, c.map_mlp_width = 6; });
  add("MapOfAll", [](auto& c) { c.pool = Pool::kMap, c.pool_prefix = true, c.map_mlp_width = 6; });
  add("TokenAndMean", [](auto& c) { c.pool = Pool::kTokenAndMean; });
  add("Registers", [](auto& c) { c.registers = 3; });
  add("Distilled", [](auto& c) { c.distillation_token = c.distillation_head = true, c.position_prefix = 2; });
  add("DistilledFeatures", [](auto& c) { c.distillation_token = true, c.position_prefix = 2, c.classes = 0; });
  add("Features", [](auto& c) { c.classes = 0, c.head_norm = true; });
  add("Pooler", [](auto& c) { c.pooler_width = 5; });
  add("Projection", [](auto& c) { c.projection_width = 5, c.fc_norm = true; });
  add("ProjectedFeatures", [](auto& c) { c.projection_width = 7, c.projection_bias = true, c.classes = 0; });
  add("SinCos", [](auto& c) { c.positions = model::Positions::kSinCos, c.class_token = false, c.pool = Pool::kMean; });
  add("NoPositions", [](auto& c) { c.positions = model::Positions::kNone; });
  add("Norms", [](auto& c) {
    c.patch_norms = c.pre_norm = c.block.attention.output_norm = c.block.mlp.norm = c.block.attention.qk_norm =
        c.head_norm = c.fc_norm = true;
  });
  add("NoBiases", [](auto& c) {
    c.patch_bias = c.block.attention.bias = c.block.attention.projection_bias = c.block.mlp.bias = false;
  });
  add("NoProjection", [](auto& c) { c.block.attention.projection = false; });
  add("LayerScale", [](auto& c) { c.block.layer_scale = true; });
  add("GateFirst",
      [](auto& c) { c.block.mlp.gate = simd::Gate::kFirst, c.block.mlp.activation = simd::Activation::kSilu; });
  add("GateLast", [](auto& c) { c.block.mlp.gate = simd::Gate::kLast, c.block.layer_scale = true; });
  add("NonSquare", [](auto& c) { c.image_height = 9, c.image_width = 12, c.patch_width = 3; });
  add("NarrowHeads", [](auto& c) { c.block.attention.head_width = 3; });
  add("NoBlocks", [](auto& c) { c.depth = 0, c.pool = Pool::kMean, c.class_token = false; });
  for (const auto& [name, kind] : {std::pair{"Shared", AttentionKind::kShared},
                                   {"Unified", AttentionKind::kUnified},
                                   {"SharedKeyValue", AttentionKind::kSharedKeyValue},
                                   {"Merged", AttentionKind::kMerged},
                                   {"LowRank", AttentionKind::kLowRank},
                                   {"Symmetric", AttentionKind::kSymmetric},
                                   {"Gaussian", AttentionKind::kGaussian},
                                   {"Positional", AttentionKind::kPositional}}) {
    add(name, [&, kind = kind](auto& c) {
      c.block.attention.kind = kind;
      if (kind == AttentionKind::kLowRank || kind == AttentionKind::kSymmetric) c.block.attention.qk_width = 3;
      if (kind == AttentionKind::kGaussian) c.pool = Pool::kMean;  // a class token has no place to be far from
    });
  }
  add("SharedNormed",
      [](auto& c) { c.block.attention.kind = AttentionKind::kShared, c.block.attention.qk_norm = true; });
  for (const auto rotary : {model::PatchRotary::kPatches, model::PatchRotary::kNormalised}) {
    add(rotary == model::PatchRotary::kPatches ? "RotaryPatches" : "RotaryNormalised", [&](auto& c) {
      c.rotary = rotary, c.rotary_base = 10, c.registers = 1;
      c.positions = model::Positions::kNone;
      c.block.attention.heads = 2, c.block.attention.head_width = 4;
    });
  }
  add("RmsNormAfterWithKeyHeadsAndWindow", [](auto& c) {
    c.block.norm = {.kind = simd::NormKind::kRms}, c.block.norm_place = nn::NormPlace::kAfter;
    c.block.attention = {.heads = 4, .head_width = 2, .key_heads = 2, .window_left = 2, .window_right = 1};
  });
  add("SinksOfKeyHeads",
      [](auto& c) { c.block.attention = {.heads = 4, .head_width = 2, .key_heads = 2, .sinks = true}; });
  add("Chances", [](auto& c) { c.block.layer_scale = true; })->options = {
      .dropout = 0.2, .attention_dropout = 0.3, .drop_path = 0.4, .seed = 9};
  return all;
}

/// The tensors of a configuration from a flat buffer, as a checkpoint binds them. Points into `weights`.
template <typename T>
struct BoundWeights {
  template <typename Config>
  BoundWeights(const Config& config, const ParameterLayout& layout, const Tensor<T>& weights) {
    for (const Slot& slot : layout.slots()) {
      stored.push_back(io::Stored<T>(slot.name, layout.At(slot.name, weights.view())));
    }
    for (const model::TensorSpec& spec : model::TensorTable(config)) {
      const auto at = std::ranges::find_if(stored, [&](const auto& tensor) { return tensor.name == spec.name; });
      bound.push_back({spec, {&*at}});
    }
  }

  std::vector<io::StoredTensor> stored;
  std::vector<model::BoundTensor> bound;
};

}  // namespace qkv::train

// Creates small checkpoints: random tensors for any configuration, written to a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/layout/tensor_table.h"
#include "tests/support/sampler.h"

namespace qkv {

/// A set of named tensors that can be modified before it is written.
struct TensorSet {
  std::vector<std::pair<std::string, Tensor<float>>> tensors;

  explicit TensorSet(const model::VitConfig& config, uint64_t seed = 1) : TensorSet(model::TensorTable(config), seed) {}
  explicit TensorSet(const std::vector<model::TensorSpec>& table, uint64_t seed = 1) {
    Sampler sampler(seed);
    for (const model::TensorSpec& spec : table) {
      const bool gain = spec.role == model::Role::kNorm && spec.name.ends_with(".weight");
      tensors.emplace_back(spec.name, sampler.Normal<float>(spec.shape, gain ? 1 : 0, gain ? 0.1 : 0.3));
    }
  }
  Tensor<float>& at(const std::string& name) {
    for (auto& [key, tensor] : tensors) {
      if (key == name) return tensor;
    }
    Fail("test: no tensor {}", name);
  }
  void Erase(const std::string& name) {
    std::erase_if(tensors, [&](const auto& entry) { return entry.first == name; });
  }
  void Write(const std::filesystem::path& path) const {
    std::vector<io::StoredTensor> stored;
    for (const auto& [name, tensor] : tensors) stored.push_back(io::Stored<float>(name, tensor));
    io::WriteSafeTensors(path, stored);
  }
};

/// timm's config.json for a tiny plain ViT: 2 blocks of width 16, 4 heads, 8x8 grey images in 4x4 patches, 3 classes.
inline io::Json TinyConfig() {
  return io::Json::parse(R"({
    "architecture": "vit_tiny_patch16_224", "num_classes": 3,
    "model_args": {"img_size": 8, "patch_size": 4, "in_chans": 1, "embed_dim": 16, "depth": 2, "num_heads": 4},
    "pretrained_cfg": {"input_size": [1, 8, 8], "crop_pct": 1.0, "mean": [0.5], "std": [0.5], "num_classes": 3}})");
}

}  // namespace qkv

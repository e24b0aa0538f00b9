// The blocks of a checkpoint of any type of model, as stored: for code that reads only the weights of blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"
#include "qkv/model/layout/bound_tensor.h"

namespace qkv::model {

/// Refers to the checkpoint, which must outlive it.
class StoredBlocks {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a checkpoint is one of blocks.
  StoredBlocks(const Checkpoint& checkpoint)
      : StoredBlocks(checkpoint.source, checkpoint.description.config, checkpoint.bound) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  StoredBlocks(const SequenceCheckpoint& checkpoint)
      : StoredBlocks(checkpoint.source, checkpoint.config, checkpoint.bound) {}
  /// A part of a model, whose tensors are `bound`. config: SequenceConfig or VitConfig. All of them must outlive it.
  template <typename Config>
  StoredBlocks(const std::string& source, const Config& config, const std::vector<BoundTensor>& bound)
      : source_(&source), config_(&config.block), depth_(config.depth), bound_(&bound) {}

  const std::string& source() const { return *source_; }
  const nn::BlockConfig& config() const { return *config_; }
  int64_t depth() const { return depth_; }

  /// Values of the tensor of this canonical name, such as "blocks.0.attn.qkv.weight"; empty if the model has none.
  /// Throws Error if a value is not finite.
  template <typename T>
  Tensor<T> Read(std::string_view canonical) const {
    const BoundTensor* bound = FindTensor(*bound_, canonical);
    return bound ? model::Read<T>(*bound) : Tensor<T>();
  }

 private:
  const std::string* source_;
  const nn::BlockConfig* config_;
  int64_t depth_;
  const std::vector<BoundTensor>* bound_;
};

}  // namespace qkv::model

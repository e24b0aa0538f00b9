// The tensors of a Vision Transformer, as a table: canonical name (timm's), shape and role.
// Not here: what other libraries call them (layout.h).
#pragma once

#include <string>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/model/vit_config.h"

namespace qkv::model {

enum class Role { kWeight, kBias, kNorm, kScale, kToken, kPosition };

struct TensorSpec {
  std::string name;
  Shape shape;
  Role role;
};

/// Every tensor that a checkpoint of this configuration holds, in the order of the forward pass.
std::vector<TensorSpec> TensorTable(const VitConfig& config);

/// Those of one block of a model of any sort, "blocks.N.…". tokens: of the trained size, which tables of places have.
std::vector<TensorSpec> BlockTable(const nn::BlockConfig& config, int64_t tokens, int64_t block);

/// Elements of all of them.
int64_t Parameters(const VitConfig& config);
int64_t Elements(const std::vector<TensorSpec>& table);

}  // namespace qkv::model

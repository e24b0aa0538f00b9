// The tensors of a model, as a table: canonical name (timm's), shape and role. They are declared in parameters.h.
// Not here: what other libraries call them (layout.h).
#pragma once

#include <string>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::model {

enum class Role { kWeight, kBias, kNorm, kScale, kToken, kPosition };

struct TensorSpec {
  std::string name;
  Shape shape;
  Role role;
};

/// Every tensor that a checkpoint of this configuration holds, in the order of the forward pass.
std::vector<TensorSpec> TensorTable(const VitConfig& config);
std::vector<TensorSpec> TensorTable(const SequenceConfig& config);

/// What a block's weights cost a token, counted over the same declaration.
struct TokenProducts {
  int64_t multiply_adds = 0;  // of all products with weights
  int64_t projected = 0;      // features that its queries, keys and values have together
};
TokenProducts CountProducts(const nn::BlockConfig& config);

/// Elements of all of them.
int64_t Parameters(const VitConfig& config);
int64_t Parameters(const SequenceConfig& config);
int64_t Elements(const std::vector<TensorSpec>& table);

}  // namespace qkv::model

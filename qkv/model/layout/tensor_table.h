// The tensors of a model as a table: canonical name (timm's), shape and role, derived from parameters.h. Not here:
// other libraries' names (tensor_names.h).
#pragma once

#include <string>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/model/config/caption_decoder.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/config/text_tower.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::model {

enum class Role { kWeight, kBias, kNorm, kScale, kToken, kPosition };

struct TensorSpec {
  std::string name;
  Shape shape;
  Role role;
  std::vector<int64_t> parts = {};  // rows of the parts that libraries store apart; empty: equally many
};

/// All tensors of a checkpoint with this configuration, in the order of the forward pass.
std::vector<TensorSpec> TensorTable(const VitConfig& config);
std::vector<TensorSpec> TensorTable(const SequenceConfig& config);
/// The linear layer between an image encoder of this width and its decoder, or nothing.
std::vector<TensorSpec> ProjectionTable(const CaptionDecoder& decoder, int64_t width);
/// Also "logit_scale" and, if there is one, "logit_bias".
std::vector<TensorSpec> TensorTable(const TextTower& tower);

/// Number of elements of all tensors.
int64_t Parameters(const VitConfig& config);
int64_t Parameters(const SequenceConfig& config);
int64_t Elements(const std::vector<TensorSpec>& table);

}  // namespace qkv::model

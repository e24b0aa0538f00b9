// The cost of a pass in operations, from the configuration.
#pragma once

#include <cstdint>

#include "qkv/model/config/sequence_config.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::model {

/// Cost of a block's weights per token, counted over the same declaration.
struct TokenProducts {
  int64_t multiply_adds = 0;  // of all products with weights
  int64_t projected = 0;      // features of queries, keys and values together
};
TokenProducts CountProducts(const nn::BlockConfig& config);

/// Operations (two per multiply-add) of one block on `tokens` tokens; a source of cross-attention has as many.
double Flops(const nn::BlockConfig& config, double tokens);

/// Operations (two per multiply-add) of one image of the trained size, or of another size.
double Flops(const VitConfig& config);
double Flops(const VitConfig& config, int64_t height, int64_t width);

/// Operations (two per multiply-add) of one sequence of full length; the savings of a causal mask are not counted.
double Flops(const SequenceConfig& config);

}  // namespace qkv::model

#include "qkv/model/pooling.h"

#include <algorithm>
#include <cassert>

#include "qkv/core/error.h"
#include "qkv/nn/pool.h"

namespace qkv::model {

int64_t PooledWidth(const VitConfig& config, Pooling pooling) {
  if (pooling == Pooling::kModel) return config.pooled_width();
  return pooling == Pooling::kClassTokenAndMean ? 2 * config.block.width : config.block.width;
}

void RequirePooling(const VitConfig& config, Pooling pooling) {
  Require(config.class_token || (pooling != Pooling::kClassToken && pooling != Pooling::kClassTokenAndMean),
          "embed: the model has no class token; use the mean of the patches (--pool mean) or the model's own vector");
}

void PoolTokens(const VitConfig& config, Pooling pooling, View<const float> tokens, float* out) {
  assert(pooling != Pooling::kModel);
  const int64_t N = tokens.dim(0), D = tokens.dim(1);
  if (pooling != Pooling::kMean) out = std::copy_n(tokens.data(), pooling == Pooling::kTokens ? N * D : D, out);
  if (pooling == Pooling::kMean || pooling == Pooling::kClassTokenAndMean) {
    nn::MeanPool<float>(tokens.reshape({1, N, D}), config.prefix(), View<float>(out, {1, D}));
  }
}

}  // namespace qkv::model

// The input tokens of a model's attention blocks on given images.
#pragma once

#include <vector>

#include "qkv/inspect/weights.h"
#include "qkv/model/model.h"

namespace qkv::lab {

/// Tokens as a block's projections read them, after the norm before the attention: [N, D] per image.
class BlockTokens {
 public:
  explicit BlockTokens(const model::Checkpoint& checkpoint);

  /// Runs pixels [B, channels, height, width] through the model, which must be of the same checkpoint.
  void Add(const model::Model& model, View<const float> pixels);

  int64_t blocks() const { return std::ssize(hidden_); }
  int64_t images() const { return hidden_.empty() ? 0 : std::ssize(hidden_.front()); }
  /// Of all images together.
  int64_t tokens() const;
  /// Tokens of one image, in double precision.
  Tensor<double> Of(int64_t block, int64_t image) const;
  /// Tokens of all images, stacked: [images · N, D]. `centred` subtracts each image's mean, since softmax depends on
  /// differences of keys only.
  Tensor<double> All(int64_t block, bool centred) const;

 private:
  struct Norm {
    Tensor<double> gamma, beta;
    double eps;
  };
  std::vector<Norm> norms_;                         // of each block
  std::vector<std::vector<Tensor<float>>> hidden_;  // [block][image], before the norm: [N, D]
  model::Workspace<float> workspace_;
};

}  // namespace qkv::lab

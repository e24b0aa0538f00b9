// What the attention of a model's blocks reads on given images.
#pragma once

#include <vector>

#include "qkv/inspect/weights.h"
#include "qkv/model/model.h"

namespace qkv::lab {

/// Tokens as the projections of a block read them, after the norm before the attention: of each image [N, D].
class BlockTokens {
 public:
  explicit BlockTokens(const model::Checkpoint& checkpoint);

  /// Runs pixels [B, channels, height, width] through the model of the same checkpoint.
  void Add(const model::Model& model, View<const float> pixels);

  int64_t blocks() const { return std::ssize(hidden_); }
  int64_t images() const { return hidden_.empty() ? 0 : std::ssize(hidden_.front()); }
  /// Of one image, in double precision.
  Tensor<double> Of(int64_t block, int64_t image) const;
  /// Of all images, one below the other: [images · N, D]. `centred`: each image's mean taken off, as only differences
  /// of keys count after softmax.
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

// A head over a bag of vectors (multiple-instance learning): gated attention decides what of thousands of tiles counts.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv::mil {

/// What a head says of one bag.
struct Answer {
  Tensor<float> scores;   // [K, tiles] before the softmax over tiles; K branches or heads
  Tensor<float> weights;  // [K, tiles] after it
  Tensor<float> vector;   // [K, hidden] or [hidden], the bag's vector; empty if the head makes none
  Tensor<float> logits;   // [C]; empty if it does not classify
};

class Head {
 public:
  virtual ~Head() = default;

  int64_t width() const { return width_; }           // of the vectors that it takes
  const std::string& name() const { return name_; }  // "CLAM, one branch", "FEATHER", "qkv ABMIL", …
  const std::vector<std::string>& classes() const { return classes_; }  // empty if it does not classify

  /// features: [tiles, width]; coords: [tiles] at level 0, for heads that use positions, side: of a tile there. Threads
  /// may call this at a time. Throws Error for an empty bag, another width, or memory above MemoryLimit().
  virtual Answer Forward(View<const float> features, std::span<const std::array<int64_t, 2>> coords,
                         int64_t side) const = 0;

 protected:
  int64_t width_ = 0;
  std::string name_;
  std::vector<std::string> classes_;
};

/// Opens weights as they lie: CLAM's and FEATHER's checkpoints (.pt, .pth, .safetensors, or a folder with one) and runs
/// of `qkv slide train`. Every tensor is used, or the file is refused. Throws Error.
std::unique_ptr<Head> OpenHead(const std::filesystem::path& path);

/// Softmax of logits [C].
std::vector<double> Probabilities(View<const float> logits);

}  // namespace qkv::mil

// The flat buffer as the layers' parameters.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "qkv/model/checkpoint/parameters.h"
#include "qkv/train/network/flat_parameters.h"

namespace qkv::train {

using model::AnswerParameters;
using model::EmbeddingParameters;

/// Layers from the front to the back are embedding, blocks, answer; so is the buffer's order. Allocates nothing after
/// its construction.
class NetworkParameters {
 public:
  /// Throws Error when the configuration contradicts itself.
  explicit NetworkParameters(const model::VitConfig& config);
  explicit NetworkParameters(const model::SequenceConfig& config);

  const ParameterLayout& layout() const { return layout_; }
  int64_t depth() const { return static_cast<int64_t>(first_slots_.size()) - 3; }

  /// buffer: [P], weights (T const) or gradients.
  template <typename T>
  EmbeddingParameters<T> Embedding(View<T> buffer) const;
  template <typename T>
  nn::BlockParameters<T> Block(int64_t block, View<T> buffer) const;
  template <typename T>
  AnswerParameters<T> Answer(View<T> buffer) const;

  /// Where each begins in the buffer, in elements: embedding (0), blocks (1 to depth), answer (depth + 1), and the end.
  int64_t begin(int64_t part) const;

 private:
  std::variant<model::VitConfig, model::SequenceConfig> config_;
  ParameterLayout layout_;
  std::vector<size_t> first_slots_;  // of each part, and their number
};

}  // namespace qkv::train

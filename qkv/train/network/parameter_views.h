// Views of the flat buffer as the layers' parameters.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "qkv/model/layout/parameters.h"
#include "qkv/train/network/flat_parameters.h"

namespace qkv::train {

using model::EmbeddingParameters;
using model::OutputParameters;

/// The buffer's order is embedding, blocks, head. Allocates only in the constructor.
class NetworkParameters {
 public:
  /// Throws Error if the configuration is inconsistent.
  explicit NetworkParameters(const model::VitConfig& config);
  explicit NetworkParameters(const model::SequenceConfig& config);
  /// Views of a part without an embedding of its own: Embedding must not be called, and part 0 has no elements.
  static NetworkParameters WithoutEmbedding(const model::SequenceConfig& config);

  const ParameterLayout& layout() const { return layout_; }
  int64_t depth() const { return static_cast<int64_t>(first_slots_.size()) - 3; }

  /// buffer: [P], weights (const T) or gradients.
  template <typename T>
  EmbeddingParameters<T> Embedding(View<T> buffer) const;
  template <typename T>
  nn::BlockParameters<T> Block(int64_t block, View<T> buffer) const;
  template <typename T>
  OutputParameters<T> Output(View<T> buffer) const;

  /// First element of each part: embedding (0), blocks (1 to depth), head (depth + 1), and the end (depth + 2).
  int64_t begin(int64_t part) const;

 private:
  NetworkParameters(const model::SequenceConfig& config, bool embeds);

  std::variant<model::VitConfig, model::SequenceConfig> config_;
  ParameterLayout layout_;
  std::vector<size_t> first_slots_;  // of each part, then the number of all slots
};

}  // namespace qkv::train

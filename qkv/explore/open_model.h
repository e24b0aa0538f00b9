// A model whose passes can be edited: its weights as stored, the layers of training over them, and the factors of each
// head's M, from which every rank follows.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "qkv/algebra/truncate.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/train/network/network.h"

namespace qkv::explore {

/// Factors of the matrix Q Kᵀ with the least error, for queries Q and keys K, [N, E] each. centred: up to a constant
/// per query, which softmax cancels.
algebra::TokenFactors FactorScores(View<const double> query, View<const double> key, bool centred);

/// T_Qᵀ T_K of the first `rank` rows: [E, E].
Tensor<double> ProjectorOf(const algebra::TokenFactors& factors, int64_t rank);

/// Not thread-safe.
class OpenModel {
 public:
  /// Builds for an input of this size; learned positions are interpolated as the model's library does. checkpoint:
  /// outlives the model. Throws Error that says why if none of its passes can be edited (PossibleEdits is empty) or the
  /// size is not possible, and if the weights exceed MemoryLimit().
  OpenModel(const model::Checkpoint& checkpoint, int64_t height, int64_t width);

  const model::VitConfig& config() const { return network_.config(); }  // of that size
  const train::Network<float>& network() const { return network_; }
  View<const float> weights() const { return weights_; }
  /// Memory of the weights and of the factors that have been computed.
  int64_t bytes() const;

  /// Factors of a head's M, biases included. exact: as the scores are, else up to a constant per query, which softmax
  /// cancels. Computed once a block.
  const algebra::TokenFactors& Factors(int64_t block, int64_t head, bool exact);

 private:
  const model::Checkpoint& checkpoint_;
  train::Network<float> network_;
  Tensor<float> weights_;  // [P]
  std::map<std::pair<int64_t, bool>, std::vector<algebra::TokenFactors>> factors_;
};

}  // namespace qkv::explore

// Weights of cross-attention that replace its softmax, to see what a trained decoder needs of it: a softmax of another
// temperature, a hard look-up, a mean of the source, and Gaussian smoothing along the diagonal.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "qkv/attention/attention.h"

namespace qkv::nn {

enum class CrossRule {
  kSoftmax,  // of the scores, divided by the temperature
  kHard,     // 1 for the greatest score, of several the first: the softmax's limit at temperature 0
  kUniform,  // the same for every token of the source
  kGaussian,  // ∝ exp(−(j − slope · t)² / 2h²) for token j of the source and position t of the target, whatever they
              // are
};

struct CrossWeights {
  CrossRule rule = CrossRule::kSoftmax;
  double temperature = 1;       // of kSoftmax
  double bandwidth = 1;         // h of kGaussian, in tokens of the source
  std::optional<double> slope;  // of kGaussian: source tokens per target token; not given: 1
  /// Block and head, which have these weights; empty: all.
  std::vector<std::pair<int64_t, int64_t>> heads = {};

  /// Whether it changes anything in this block.
  bool Replaces(int64_t block) const;
  bool Replaces(int64_t block, int64_t head) const;
  /// Throws Error if a number is out of range, or there is no such head among `heads` in each of `depth` blocks.
  void Validate(int64_t depth, int64_t heads) const;
  bool operator==(const CrossWeights&) const = default;
};

/// weights: [B, H, N_q, N], dense, those of the rule for heads that it replaces, softmax's for the others, 0 after an
/// entry's length. query: [B, H, N_q, r]; key: [B, G, N, r]; options: of the softmax; lengths: [B], tokens of each
/// entry's source, 1 to N; positions: [B, N_q], of the queries in the target.
template <typename T>
void ComputeCrossWeights(const CrossWeights& rule, int64_t block, View<const T> query, View<const T> key,
                         const attention::Options<T>& options, View<const int64_t> lengths,
                         View<const int64_t> positions, View<T> weights);

}  // namespace qkv::nn

// Samples the next token from its logits: temperature, top-k, top-p, min-p.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/core/rng.h"

namespace qkv::model {

/// Settings of sampling.
struct SamplingSettings {
  double temperature = 1;  // divides the logits; 0: greedy, the first of equal maxima
  int64_t top_k = 0;       // keeps only the k most probable tokens; 0: all
  double top_p = 1;        // of these, the fewest whose probabilities sum to p (nucleus sampling, Holtzman et al. 2020)
  double min_p = 0;        // of these, those that are at least p times as probable as the most probable one
  uint64_t seed = 0;       // the same seed draws the same tokens

  /// Throws Error if a number is out of range: temperature and top_k at least 0, top_p above 0 and at most 1, min_p 0
  /// to 1.
  void Validate() const;
  /// Whether all settings are the same.
  bool operator==(const SamplingSettings&) const = default;
};

/// Samples tokens: the same ones for the same seed and logits on every machine, up to the rounding of exp.
class TokenSampler {
 public:
  /// Throws Error as Validate.
  explicit TokenSampler(const SamplingSettings& settings);

  /// The n-th call uses the n-th random number of the seed, whatever the logits are; greedy calls use none. A
  /// logit of −infinity is never drawn. Throws Error if there are no other logits, or one is NaN or +infinity.
  template <typename T>
  int32_t Draw(std::span<const T> logits);

 private:
  SamplingSettings settings_;
  Rng rng_;
  std::vector<int32_t> order_;   // tokens, most probable first
  std::vector<double> weights_;  // their weights
};

}  // namespace qkv::model
